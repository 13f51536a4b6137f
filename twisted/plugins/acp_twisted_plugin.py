"""C{twistd acp}: see L{acp_twisted.tap}."""

from twisted.application.service import ServiceMaker

acp = ServiceMaker("acp", "acp_twisted.tap", "Run an Agent Client Protocol agent.", "acp")
