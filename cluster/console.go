package cluster

import (
	"net/http"

	"github.com/sievedb/sievedb/cluster/internal/page"
)

// Console serves a page about the cluster: nodes, groups, leaders, replicas and their lag, and for
// each group with a replica here the console of its database. Mount it for the root of a server.
//
// It shows no keys and values and changes nothing. It does not authenticate anyone: serve it on a loopback address, or
// after checks of your own. Requests must name an IP address, localhost, or one of hosts, so that other web sites
// cannot read it.
func (n *Node) Console(hosts ...string) http.Handler { return page.Handler(n.node, hosts...) }
