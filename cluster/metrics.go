package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/metrics"
)

// WriteMetrics writes figures in the text format of Prometheus: those of the node and of its clients, those of each
// group, and those of each database. The database of the logs has the label group="log".
func (n *Node) WriteMetrics(w io.Writer) error {
	out := bufio.NewWriter(w)
	n.writeNode(out)
	n.writeGroups(out)
	var all exposition
	err := n.node.EachStore(func(name string, source metrics.Source) error {
		var text bytes.Buffer
		if err := metrics.WriteText(&text, metrics.Read(source, false), "group", name); err != nil {
			return err
		}
		all.add(text.String())
		return nil
	})
	if err != nil {
		return err
	}
	all.writeTo(out)
	return out.Flush()
}

// family writes the head of a family.
func family(out *bufio.Writer, name, kind, help string) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (n *Node) writeNode(out *bufio.Writer) {
	h, clients, scrub := n.node.Health(), n.server.Stats(), n.node.Scrubbed()
	for _, f := range []struct {
		name, kind, help string
		value            int64
	}{
		{"sieved_ready", "gauge", "Whether the node can answer or redirect clients for all slots.", number(h.Ready)},
		{"sieved_problems", "gauge", "Problems that /healthz lists.", int64(len(h.Problems))},
		{"sieved_disk_full", "gauge", "Whether the node refuses writes because its disk is full.", number(h.Full)},
		{"sieved_clients", "gauge", "Connections of clients.", int64(clients.Clients)},
		{"sieved_connections_total", "counter", "Connections of clients since the start.", clients.Connections},
		{"sieved_rejected_connections_total", "counter", "Connections that were one too many.", clients.Rejected},
		{"sieved_unauthenticated_clients", "gauge", "Connections that have to authenticate.", int64(clients.Unauthenticated)},
		{"sieved_evicted_connections_total", "counter", "Connections without a request or the password that were closed for newer ones.", clients.Evicted},
		{"sieved_timed_out_connections_total", "counter", "Connections whose clients took too long.", clients.TimedOut},
		{"sieved_wrong_passwords_total", "counter", "Wrong passwords of clients.", clients.WrongPasswords},
		{"sieved_client_bytes", "gauge", "Memory of requests and replies of all clients.", clients.ClientBytes},
		{"sieved_client_bytes_limit", "gauge", "What it may be.", clients.ClientBytesLimit},
		{"sieved_client_memory_waits_total", "counter", "Waits of clients because it was used up.", clients.MemoryWaits},
		{"sieved_shed_clients_total", "counter", "Clients that had stalled and were closed because it was used up.", clients.Shed},
		{"sieved_commands_total", "counter", "Commands of clients.", clients.Commands},
		{"sieved_protocol_errors_total", "counter", "Connections that broke the protocol.", clients.ProtocolErrors},
		{"sieved_nodes", "gauge", "Nodes of the cluster.", int64(h.Nodes)},
		{"sieved_nodes_up", "gauge", "Nodes that were heard of lately.", int64(h.NodesUp)},
		{"sieved_scrub_bytes_total", "counter", "Bytes of tables and logs that the scrub has read.", int64(scrub.Bytes)},
		{"sieved_scrub_passes_total", "counter", "Times that the scrub has read all files.", int64(scrub.Passes)},
		{"sieved_scrub_last_pass_timestamp_seconds", "gauge", "When the scrub had read all files, 0 if it has not yet.", seconds(scrub.LastPass)},
		{"sieved_scrub_damages_found_total", "counter", "Damaged files that the scrub has found.", int64(scrub.Found)},
		{"sieved_scrub_damages_healed_total", "counter", "Damaged files that were replaced since.", int64(scrub.Healed)},
	} {
		family(out, f.name, f.kind, f.help)
		fmt.Fprintf(out, "%s %d\n", f.name, f.value)
	}
}

// seconds returns a time as Prometheus has it.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (n *Node) writeGroups(out *bufio.Writer) {
	groups := n.node.Groups()
	for _, f := range []struct {
		name, kind, help string
		value            func(g node.GroupFigures) float64
	}{
		{"sieved_group_working", "gauge", "Whether the replica works.", func(g node.GroupFigures) float64 { return float64(number(g.Working)) }},
		{"sieved_group_leads", "gauge", "Whether this node leads the group.", func(g node.GroupFigures) float64 { return float64(number(g.Leads)) }},
		{"sieved_group_term", "gauge", "Term of raft.", func(g node.GroupFigures) float64 { return float64(g.Term) }},
		{"sieved_group_applied_index", "gauge", "Index of the last entry that is applied.", func(g node.GroupFigures) float64 { return float64(g.Applied) }},
		{"sieved_group_voters", "gauge", "Voters in the group's configuration.", func(g node.GroupFigures) float64 { return float64(g.Voters) }},
		{"sieved_group_leader_contact_seconds", "gauge", "Time since a message of the leader, 0 for the leader.", func(g node.GroupFigures) float64 { return g.LastContact.Seconds() }},
	} {
		family(out, f.name, f.kind, f.help)
		for _, g := range groups {
			fmt.Fprintf(out, "%s{group=\"%d\"} %s\n", f.name, g.Group, strconv.FormatFloat(f.value(g), 'g', -1, 64))
		}
	}
}

// exposition merges texts of several stores: the format wants all values of a family together.
type exposition struct {
	order  []string // heads of the families
	values map[string][]string
}

// add adds a text. Each of its families begins with # HELP and # TYPE.
func (e *exposition) add(text string) {
	if e.values == nil {
		e.values = map[string][]string{}
	}
	for _, part := range strings.Split(text, "# HELP ") {
		help, rest, _ := strings.Cut(part, "\n")
		kind, values, found := strings.Cut(rest, "\n")
		if !found {
			continue // what is before the first family
		}
		head := "# HELP " + help + "\n" + kind + "\n"
		if _, known := e.values[head]; !known {
			e.order = append(e.order, head)
		}
		e.values[head] = append(e.values[head], values)
	}
}

func (e *exposition) writeTo(out *bufio.Writer) {
	for _, head := range e.order {
		_, _ = out.WriteString(head) // Flush returns the error
		for _, values := range e.values[head] {
			_, _ = out.WriteString(values)
		}
	}
}
