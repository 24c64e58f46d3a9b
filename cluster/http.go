package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sievedb/sievedb/cluster/internal/page"
	"github.com/sievedb/sievedb/metrics"
)

// Handler serves figures over HTTP:
//
//   - /healthz: 200 while the node runs, with its problems as text;
//   - /readyz: 200 if the node can answer or redirect clients for all slots, otherwise 503;
//   - /metrics: figures in the text format of Prometheus, some hundred. /metrics?groups=all has those of each group
//     instead of sums, /metrics?group=7 only those of group 7; group may be repeated.
//
// It does not authenticate anyone, and shows no keys and values: serve it on an address for operators. Requests must
// name no host, an IP address, localhost, or one of hosts (without ports), so that web sites cannot read it.
func (n *Node) Handler(hosts ...string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { n.writeHealth(w, http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status := http.StatusOK
		if !n.node.Health().Ready {
			status = http.StatusServiceUnavailable
		}
		n.writeHealth(w, status)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		o, err := metricsOptions(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", metrics.TextType)
		_ = n.WriteMetrics(w, o) // an error is of the connection
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		// HTTP/1.0 has requests without a Host, such as the checks of HAProxy. No browser sends them.
		if r.Host != "" && !page.KnowsHost(r.Host, hosts) {
			http.Error(w, "figures are not served under this host name; use the IP address, localhost, or a name given to "+
				"the node (--metrics-host)", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// metricsOptions reads the query of /metrics.
func metricsOptions(query url.Values) (*MetricsOptions, error) {
	var o MetricsOptions
	for name, values := range query {
		for _, value := range values {
			number, err := strconv.ParseUint(value, 10, 16)
			switch {
			case name == "groups" && value == "all":
				o.AllGroups = true
			case name == "group" && err == nil:
				o.Groups = append(o.Groups, int(number))
			default:
				return nil, errors.New("use /metrics, /metrics?groups=all, or /metrics?group=7, where group may be repeated")
			}
		}
	}
	return &o, nil
}

func (n *Node) writeHealth(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	h := n.node.Health()
	if len(h.Problems) == 0 {
		fmt.Fprintf(w, "ok: %d groups, leads %d\n", h.Groups, h.Leads)
	}
	for _, problem := range h.Problems {
		fmt.Fprintln(w, problem)
	}
}
