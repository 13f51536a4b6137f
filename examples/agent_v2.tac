"""
The echo agent of version 2 as an application file:  twistd -ny examples/agent_v2.tac
"""

import sys
from pathlib import Path

from twisted.application.service import Application
from twisted.internet import reactor

from acp_twisted.service import AgentService

sys.path.insert(0, str(Path(__file__).resolve().parent))

from echo_agent_v2 import agent

application = Application("echo")
AgentService(agent, "tcp:8123:interface=127.0.0.1", reactor).setServiceParent(application)
