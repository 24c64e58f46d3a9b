package node

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/db"
)

// infoSection is a section of INFO.
type infoSection struct {
	name string
	put  func(n *Node, line func(name string, value any))
}

var infoSections = []infoSection{
	{"Node", (*Node).infoNode},
	{"Memory", (*Node).infoMemory},
	{"Persistence", (*Node).infoPersistence},
	{"Replication", (*Node).infoReplication},
	{"Map", (*Node).infoMap},
	{"Raft", (*Node).infoRaft},
}

// Info implements kv.Cluster. A section that this node does not have is empty.
func (n *Node) Info(section string) string {
	var b strings.Builder
	for _, s := range infoSections {
		switch strings.ToLower(section) {
		case "", "all", "everything", "default", strings.ToLower(s.name):
		default:
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", s.name)
		s.put(n, func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) })
	}
	return b.String()
}

func (n *Node) infoNode(line func(string, any)) {
	line("run_id", n.clusterName()+"-"+n.self().Server())
	line("tcp_addr", n.addr)
	line("node_id", n.o.ID)
	line("node_zone", n.o.Zone)
	line("node_incarnation", n.self().Incarnation)
	line("node_uptime_in_seconds", int64(time.Since(n.started).Seconds()))
}

func (n *Node) infoMemory(line func(string, any)) {
	used := memory()
	line("used_memory", used)
	line("used_memory_human", human(used))
	line("used_memory_rss", cmp.Or(resident(), used))
	line("maxmemory", 0) // keys are not evicted
	line("maxmemory_policy", "noeviction")
	m := n.shared.Metrics()
	line("block_cache_bytes", m.Cache.Used)
	line("block_cache_limit_bytes", m.Cache.Limit)
	line("memtable_bytes", m.Memtables.Used)
	line("memtable_limit_bytes", m.Memtables.Limit)
}

// human returns a number of bytes as Redis does.
func human(bytes int64) string {
	size, unit := float64(bytes), 0
	for ; size >= 1024 && unit < len(units)-1; unit++ {
		size /= 1024
	}
	return fmt.Sprintf("%.2f%c", size, units[unit])
}

const units = "BKMGT"

// resident returns how many bytes of the process are in memory, mapped files included, or 0 where the system does not
// say it as Linux does.
func resident() (bytes int64) {
	statm, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(statm)); len(fields) > 1 {
		bytes, _ = strconv.ParseInt(fields[1], 10, 64)
	}
	return bytes * int64(os.Getpagesize())
}

func (n *Node) infoPersistence(line func(string, any)) {
	var bytes uint64
	for _, h := range n.running() {
		_ = h.state.WithDB(func(d *db.DB) error {
			usage, err := d.DiskUsage()
			bytes += usage.Total
			return err
		})
	}
	line("loading", 0)
	line("state_bytes", bytes)
	full := 0
	if n.full.Load() {
		full = 1
	}
	line("disk_full", full)
	log := "ok"
	if err := n.logs.err(); err != nil {
		log = "failed"
	}
	line("log_status", log)
	n.infoBackup(line)
	s := n.Scrubbed()
	line("scrub_bytes", s.Bytes)
	line("scrub_passes", s.Passes)
	if !s.LastPass.IsZero() {
		line("scrub_last_pass_age_seconds", int64(time.Since(s.LastPass).Seconds()))
	}
	line("scrub_damages_found", s.Found)
	line("scrub_damages_healed", s.Healed)
}

func (n *Node) infoReplication(line func(string, any)) {
	h := n.Health()
	role := "slave" // the words of Redis: what clients and tools look for
	if h.Leads > 0 {
		role = "master"
	}
	line("role", role)
	line("connected_slaves", 0)
	line("groups_hosted", h.Groups)
	line("groups_led", h.Leads)
}

func (n *Node) infoMap(line func(string, any)) {
	m := n.atlas.chart()
	line("cluster_id", m.Cluster)
	line("cluster_map_version", m.Version)
	line("cluster_nodes", len(m.Nodes))
	line("cluster_groups", m.Groups)
	line("cluster_replicas", m.Replicas)
	for i, problem := range n.Health().Problems {
		line(fmt.Sprintf("problem%d", i), strings.NewReplacer("\r", " ", "\n", " ").Replace(problem))
	}
}

func (n *Node) infoRaft(line func(string, any)) {
	for _, p := range n.places {
		if !p.isHosted() {
			continue
		}
		name := fmt.Sprintf("group%d", p.id)
		h := p.get()
		if h == nil {
			line(name, "state=failed")
			continue
		}
		state := "follower"
		if h.replica.Leading() {
			state = "leader"
		}
		line(name, fmt.Sprintf("state=%s,term=%d,applied=%d,leader=%s", state, h.log.Term(), h.applied(), nodeOf(h.log.Leader())))
	}
}
