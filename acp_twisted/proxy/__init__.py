"""
Proxies between clients and agents, and the conductor that runs chains of them.
"""

from acp_twisted.proxy.calls import ProxyCall
from acp_twisted.proxy.conductor import Conductor, ConductorBuilder
from acp_twisted.proxy.context import PASS, ProxyContext, ProxySide
from acp_twisted.proxy.proxy import AcpProxy, AcpProxyBuilder, ProxyConnection, run_proxy

__all__ = [
    "PASS",
    "AcpProxy",
    "AcpProxyBuilder",
    "Conductor",
    "ConductorBuilder",
    "ProxyCall",
    "ProxyConnection",
    "ProxyContext",
    "ProxySide",
    "run_proxy",
]
