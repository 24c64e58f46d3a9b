package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/metrics"
)

// MetricsOptions say which figures WriteMetrics writes. The zero value is for a scrape of a node: some hundred series,
// however many groups there are.
type MetricsOptions struct {
	// AllGroups writes the figures of each group, and of its database with the label group="7", instead of the sums
	// over all groups, which have the label group="all". They are more than 300 for each group.
	AllGroups bool

	// Groups writes the figures of these groups and nothing else, if it is not nil. A group that has no replica on this
	// node has none.
	Groups []int
}

// WriteMetrics writes figures in the text format of Prometheus: those of the node and of its clients, what the node
// finds wrong with the cluster, sums over the groups, and those of the databases: of the logs, with the label
// group="log", and of the groups. To find what is wrong it asks the other nodes, and waits for silent ones as long as a
// heartbeat. nil options are the zero value.
func (n *Node) WriteMetrics(w io.Writer, o *MetricsOptions) error {
	if o == nil {
		o = &MetricsOptions{}
	}
	p := sheet{out: bufio.NewWriter(w)}
	chosen := func(kv.GroupID) bool { return true }
	if o.Groups != nil {
		chosen = func(g kv.GroupID) bool { return slices.Contains(o.Groups, int(g)) }
	} else {
		n.writeNode(&p)
		n.writeCluster(&p)
	}
	if o.Groups != nil || o.AllGroups {
		n.writeGroups(&p, chosen)
	}
	if err := n.writeStores(&p, o); err != nil {
		return err
	}
	return p.out.Flush()
}

// sheet is where families are written. Flush returns the first error.
type sheet struct{ out *bufio.Writer }

// family writes the head of a family.
func (p *sheet) family(name, kind, help string) {
	fmt.Fprintf(p.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// value writes a value of a family. labels is what is between the braces.
func (p *sheet) value(name, labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p.out, "%s%s %s\n", name, labels, strconv.FormatFloat(value, 'f', -1, 64))
}

// single is a family with one value.
type single struct {
	name, kind, help string
	value            float64
}

func (p *sheet) singles(all []single) {
	for _, f := range all {
		p.family(f.name, f.kind, f.help)
		p.value(f.name, "", f.value)
	}
}

// seconds returns a time as Prometheus has it.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (n *Node) writeNode(p *sheet) {
	h, clients, f, scrub := n.node.Health(), n.server.Stats(), n.node.Figures(), n.node.Scrubbed()
	p.family("sieved_build_info", "gauge", "1, with the version of the module.")
	p.value("sieved_build_info", fmt.Sprintf("version=%q", f.Version), 1)
	p.singles([]single{
		{"sieved_uptime_seconds", "gauge", "Time since the node started.", float64(f.UptimeSeconds)},
		{"sieved_ready", "gauge", "Whether the node can answer or redirect clients for all slots.", number(h.Ready)},
		{"sieved_problems", "gauge", "Problems that /healthz lists.", float64(len(h.Problems))},
		{"sieved_disk_full", "gauge", "Whether the node refuses writes because its disk is full.", number(h.Full)},
		{"sieved_disk_free_bytes", "gauge", "Bytes that may still be written to the node's disk.",
			float64(f.DiskFreeBytes)},
		{"sieved_disk_reserve_bytes", "gauge", "With less free than this, the node refuses writes.",
			float64(f.DiskReserveBytes)},
		{"sieved_disk_used_bytes", "gauge", "Size of all databases of the node, measured twice a minute.",
			float64(f.DiskUsedBytes)},
		{"sieved_memory_bytes", "gauge", "Memory of Go's runtime, without mapped files.", float64(f.MemoryBytes)},
		{"sieved_clients", "gauge", "Connections of clients.", float64(clients.Clients)},
		{"sieved_connections_total", "counter", "Connections of clients since the start.",
			float64(clients.Connections)},
		{"sieved_rejected_connections_total", "counter", "Connections that were one too many.",
			float64(clients.Rejected)},
		{"sieved_unauthenticated_clients", "gauge", "Connections that have to authenticate.",
			float64(clients.Unauthenticated)},
		{"sieved_evicted_connections_total", "counter",
			"Connections without a request or the password that were closed for newer ones.", float64(clients.Evicted)},
		{"sieved_timed_out_connections_total", "counter", "Connections whose clients took too long.",
			float64(clients.TimedOut)},
		{"sieved_wrong_passwords_total", "counter", "Wrong passwords of clients.", float64(clients.WrongPasswords)},
		{"sieved_client_bytes", "gauge", "Memory of requests and replies of all clients.",
			float64(clients.ClientBytes)},
		{"sieved_client_bytes_limit", "gauge", "What it may be.", float64(clients.ClientBytesLimit)},
		{"sieved_client_memory_waits_total", "counter", "Waits of clients because it was used up.",
			float64(clients.MemoryWaits)},
		{"sieved_shed_clients_total", "counter", "Clients that had stalled and were closed because it was used up.",
			float64(clients.Shed)},
		{"sieved_commands_total", "counter", "Commands of clients.", float64(clients.Commands)},
		{"sieved_protocol_errors_total", "counter", "Connections that broke the protocol.",
			float64(clients.ProtocolErrors)},
		{"sieved_scrub_bytes_total", "counter", "Bytes of tables and logs that the scrub has read.",
			float64(scrub.Bytes)},
		{"sieved_scrub_passes_total", "counter", "Times that the scrub has read all files.", float64(scrub.Passes)},
		{"sieved_scrub_last_pass_timestamp_seconds", "gauge", "When the scrub had read all files, 0 if it has not yet.",
			seconds(scrub.LastPass)},
		{"sieved_scrub_damages_found_total", "counter", "Damaged files that the scrub has found.",
			float64(scrub.Found)},
		{"sieved_scrub_damages_healed_total", "counter", "Damaged files that were replaced since.",
			float64(scrub.Healed)},
	})
}

// severities are the values of sieved_finding.
var severities = map[overview.Severity]float64{overview.Note: 1, overview.Warning: 2, overview.Critical: 3}

// writeCluster writes what the node sees of the cluster, and sums over its replicas.
func (n *Node) writeCluster(p *sheet) {
	o := n.looks.Get(context.Background())
	p.family("sieved_finding", "gauge",
		"What sieved health finds: 3 if clients get errors, 2 for a warning, 1 for a note, 0 if it is not so.")
	worst := map[string]float64{}
	for _, f := range o.Findings {
		worst[f.Kind] = max(worst[f.Kind], severities[f.Severity])
	}
	for _, kind := range overview.Kinds {
		p.value("sieved_finding", fmt.Sprintf("kind=%q", kind), worst[kind])
	}
	p.family("sieved_node_silent_seconds", "gauge", "Time since the last sign of life of each node, 0 if it answers.")
	for _, node := range o.Nodes {
		p.value("sieved_node_silent_seconds", fmt.Sprintf("node=%q", node.ID), float64(node.SilentMs)/1000)
	}
	stuck, lag := 0, uint64(0)
	for i := range o.Groups {
		if _, working, majority := o.Groups[i].Tally(); working < majority {
			stuck++
		}
		for _, r := range o.Groups[i].Replicas {
			if r.Node == o.Node {
				lag = max(lag, r.Lag)
			}
		}
	}
	var working, leads, terms, applied, contact float64
	replicas := n.node.Groups()
	for _, g := range replicas {
		working += number(g.Working)
		leads += number(g.Leads)
		terms += float64(g.Term)
		applied += float64(g.Applied)
		contact = max(contact, g.LastContact.Seconds())
	}
	p.singles([]single{
		{"sieved_nodes", "gauge", "Nodes of the cluster.", float64(len(o.Nodes))},
		{"sieved_nodes_up", "gauge", "Nodes that answer.", float64(o.Answering())},
		{"sieved_groups", "gauge", "Groups of the cluster.", float64(len(o.Groups))},
		{"sieved_groups_without_leader", "gauge", "Groups that nobody leads.", float64(len(o.Groups) - o.Led())},
		{"sieved_groups_without_majority", "gauge", "Groups whose majority does not answer.", float64(stuck)},
		{"sieved_groups_hosted", "gauge", "Groups that have a replica on this node.", float64(len(replicas))},
		{"sieved_groups_working", "gauge", "Of these, those whose replica works.", working},
		{"sieved_groups_led", "gauge", "Of these, those that this node leads.", leads},
		{"sieved_terms", "gauge", "Sum of the terms of these groups: each election adds one.", terms},
		{"sieved_applied_entries", "gauge", "Sum of the applied indexes of these groups.", applied},
		{"sieved_lag_entries", "gauge", "Entries that the latest replica on this node lacks.", float64(lag)},
		{"sieved_leader_contact_seconds", "gauge", "Longest time without a message of a leader.", contact},
	})
}

func (n *Node) writeGroups(p *sheet, chosen func(kv.GroupID) bool) {
	groups := slices.DeleteFunc(n.node.Groups(), func(g node.GroupFigures) bool { return !chosen(g.Group) })
	type figures = node.GroupFigures
	for _, f := range []struct {
		name, help string
		value      func(g figures) float64
	}{
		{"sieved_group_working", "Whether the replica works.", func(g figures) float64 { return number(g.Working) }},
		{"sieved_group_leads", "Whether this node leads the group.", func(g figures) float64 { return number(g.Leads) }},
		{"sieved_group_term", "Term of raft.", func(g figures) float64 { return float64(g.Term) }},
		{"sieved_group_applied_index", "Index of the last entry that is applied.",
			func(g figures) float64 { return float64(g.Applied) }},
		{"sieved_group_voters", "Voters in the group's configuration.", func(g figures) float64 { return float64(g.Voters) }},
		{"sieved_group_leader_contact_seconds", "Time since a message of the leader, 0 for the leader.",
			func(g figures) float64 { return g.LastContact.Seconds() }},
	} {
		p.family(f.name, "gauge", f.help)
		for _, g := range groups {
			p.value(f.name, fmt.Sprintf(`group="%d"`, g.Group), f.value(g))
		}
	}
}

// writeStores writes the figures of the databases.
func (n *Node) writeStores(p *sheet, o *MetricsOptions) error {
	var all exposition
	var stores []metrics.Snapshot
	err := n.node.EachStore(func(name string, source metrics.Source) error {
		var text bytes.Buffer
		number, err := strconv.Atoi(name)
		isGroup, s := err == nil, metrics.Read(source, false)
		switch {
		case o.Groups != nil && !(isGroup && slices.Contains(o.Groups, number)):
			return nil
		case isGroup && o.Groups == nil && !o.AllGroups:
			stores = append(stores, s)
			return nil
		case isGroup || o.AllGroups:
			err = metrics.WriteText(&text, s, "group", name)
		default:
			err = metrics.WriteSum(&text, []metrics.Snapshot{s}, "group", name) // shorter
		}
		all.add(text.String())
		return err
	})
	if err != nil {
		return err
	}
	if len(stores) > 0 {
		var text bytes.Buffer
		if err := metrics.WriteSum(&text, stores, "group", "all"); err != nil {
			return err
		}
		all.add(text.String())
	}
	all.writeTo(p.out)
	return nil
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
