package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Severity says how soon an operator should look.
type Severity string

// The severities. A cluster with a Critical or a Warning is not healthy.
const (
	Critical Severity = "critical" // clients get errors
	Warning  Severity = "warning"  // clients notice little, but a further fault may stop them, or this one may grow
	Note     Severity = "note"     // as an operator wanted it, probably
)

// The kinds of findings: names for scripts and metrics, which do not change.
const (
	KindRemoved       = "removed"
	KindNoMajority    = "no_majority"
	KindNoLeader      = "no_leader"
	KindDiskFull      = "disk_full"
	KindLogFailed     = "log_failed"
	KindReplicaFailed = "replica_failed"
	KindDamage        = "damage"
	KindSilent        = "silent_node"
	KindDiskLow       = "disk_low"
	KindSlowDisk      = "slow_disk"
	KindLagging       = "lagging"
	KindFewReplicas   = "few_replicas"
	KindFewNodes      = "few_nodes"
	KindLeaving       = "leaving"
	KindVersions      = "versions"
)

// Kinds are all kinds of findings.
var Kinds = []string{
	KindRemoved, KindNoMajority, KindNoLeader, KindDiskFull, KindLogFailed, KindReplicaFailed, KindDamage, KindSilent,
	KindDiskLow, KindSlowDisk, KindLagging, KindFewReplicas, KindFewNodes, KindLeaving, KindVersions,
}

// Finding is something that an operator should know.
type Finding struct {
	Kind     string   `json:"kind"`
	Severity Severity `json:"severity"`
	// Text says what it means, Next what to do. Both are sentences; Next may be empty.
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
	// Nodes and Groups are those that it is about.
	Nodes  []string     `json:"nodes,omitempty"`
	Groups []kv.GroupID `json:"groups,omitempty"`
}

const (
	// lagLimit is from how many entries on a replica is called late: about as many as a log keeps for it, so that soon
	// it needs a whole state. A busy replica is some hundreds of entries behind at any moment.
	lagLimit = 8192
	// leaderlessBeats is after how many heartbeats without a leader an election has failed rather than that it runs.
	leaderlessBeats = 10
)

// Findings derives what an overview means, the worst first. It gives all facts of a kind one sentence, however many
// groups there are.
func Findings(o *Overview) []Finding {
	d := deduction{Overview: o}
	for _, n := range o.Nodes {
		if !n.Answered {
			d.silent = append(d.silent, n)
		}
	}
	for _, rule := range []func(){
		d.removed, d.majorities, d.leaders, d.full, d.logs, d.failures, d.damage, d.silence,
		d.disks, d.lag, d.placement, d.leaving, d.versions,
	} {
		rule()
	}
	order := []Severity{Critical, Warning, Note}
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return d.findings
}

// sameVersion is the next step if nodes refuse each other because of their versions.
const sameVersion = "Run the same version of sieved on all nodes. /healthz and the logs of the nodes name the versions."

// deduction makes the findings of an overview.
type deduction struct {
	*Overview
	silent   []Node
	stuck    []kv.GroupID // groups without a majority
	findings []Finding
}

// add adds a finding. Errors of which its text has some may have several lines.
func (d *deduction) add(f Finding) {
	f.Text = strings.Join(strings.Fields(f.Text), " ")
	d.findings = append(d.findings, f)
}

func (d *deduction) removed() {
	if d.Removed {
		d.add(Finding{Kind: KindRemoved, Severity: Critical, Nodes: []string{d.Node},
			Text: fmt.Sprintf("Node %s was removed from the cluster, and has no data any more.", d.Node),
			Next: "Stop it. To return, it needs an empty --dir and --join."})
	}
}

// in says in which groups something is, "" for all.
func (d *deduction) in(groups []kv.GroupID) string {
	if len(groups) == len(d.Groups) {
		return ""
	}
	return fmt.Sprintf(" in %d of %d groups (%s)", len(groups), len(d.Groups), strings.TrimPrefix(GroupsText(groups),
		"groups "))
}

// quiet describes the nodes that are silent: "2 of 3 nodes are silent (node 2 for 14 s: connection refused; ...)".
func (d *deduction) quiet() string {
	var each []string
	for _, n := range d.silent {
		text := fmt.Sprintf("node %s for %s", n.ID, Duration(milliseconds(n.SilentMs)))
		if n.Why != "" {
			text += ": " + n.Why
		}
		each = append(each, text)
	}
	verb := "are"
	if len(d.silent) == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s %s silent (%s)", len(d.silent), count(len(d.Nodes), "node"),
		verb, strings.Join(each, "; "))
}

func (d *deduction) majorities() {
	need, seats, broken, lost := 0, map[string]bool{}, map[string]bool{}, false
	for i := range d.Groups {
		g := &d.Groups[i]
		voters, working, majority := g.Tally()
		if working >= majority || g.Leader != "" && voters == 0 {
			continue
		}
		d.stuck = append(d.stuck, g.Group)
		if voters == 0 { // only nodes that are silent know them
			need = max(need, min(d.Replicas/2+1, len(d.silent)))
			lost = true
			for _, n := range d.silent {
				seats[n.ID] = true
			}
			continue
		}
		need = max(need, majority-working)
		for _, r := range g.Replicas {
			switch {
			case !r.Voter || r.Works():
			case !r.Known:
				seats[r.Node] = true
			default:
				broken[r.Node] = true
			}
		}
	}
	if len(d.stuck) == 0 {
		return
	}
	f := Finding{Kind: KindNoMajority, Severity: Critical, Groups: d.stuck, Nodes: slices.Sorted(maps.Keys(seats))}
	causes := []string{}
	if len(seats) > 0 {
		causes = append(causes, d.quiet())
	}
	if len(broken) > 0 {
		causes = append(causes, "replicas on "+nodesText(slices.Sorted(maps.Keys(broken)), "and")+" do not work")
	}
	if len(causes) == 0 && lost {
		causes = append(causes, "no node has replicas")
	} else if len(causes) == 0 {
		causes = append(causes, "most voters are of nodes that lost their logs")
	}
	here := ""
	if d.elsewhere() {
		here = " through node " + d.Node
	}
	f.Text = fmt.Sprintf("No reads and no writes%s%s: %s.", here, d.in(d.stuck), strings.Join(causes, ", and "))
	f.Next = d.way(f.Nodes, need, len(broken) > 0)
	d.add(f)
}

// elsewhere reports whether silent nodes may have the majority of a group among themselves, and serve clients: the node
// that was asked may be cut off, or the only one of its version.
func (d *deduction) elsewhere() bool {
	mayRun := map[string]bool{}
	for _, n := range d.silent {
		mayRun[n.ID] = n.Why != WhyRefused
	}
	return slices.ContainsFunc(d.stuck, func(id kv.GroupID) bool {
		g := &d.Groups[slices.IndexFunc(d.Groups, func(g Group) bool { return g.Group == id })]
		_, _, majority := g.Tally()
		for _, r := range g.Replicas {
			if r.Voter && mayRun[r.Node] {
				majority--
			}
		}
		return majority <= 0
	})
}

// way says how groups without a majority get one: need more of the nodes must return.
func (d *deduction) way(nodes []string, need int, broken bool) string {
	if len(nodes) > 0 && d.otherVersion() {
		return sameVersion
	}
	var next []string
	switch {
	case len(nodes) == 0:
	case need >= len(nodes):
		next = append(next, fmt.Sprintf("Start %s, or mend the network if they run.", nodesText(nodes, "and")))
	case need == 1:
		next = append(next, fmt.Sprintf("Start %s, or mend the network if they run.", nodesText(nodes, "or")))
	default:
		next = append(next, fmt.Sprintf("Start %d of the nodes %s, or mend the network if they run.",
			need, join(nodes, "and")))
	}
	if len(nodes) == 1 {
		next[0] = fmt.Sprintf("Start node %s, or mend the network if it runs.", nodes[0])
	}
	if broken {
		next = append(next, "The logs of the nodes say why their replicas do not work.")
	}
	if len(nodes) == 0 {
		return strings.Join(next, " ")
	}
	disks := "If their disks are gone"
	if len(nodes) == 1 {
		disks = "If its disk is gone"
	}
	if best := d.survivor(); best != "" {
		return strings.Join(append(next, fmt.Sprintf("%s: sieved restore makes a new cluster from a backup; "+
			"without one, stop node %s, whose log "+
			"is the newest, and run sieved recover --id %s --dir DIR --accept-data-loss.", disks, best, best)), " ")
	}
	return strings.Join(append(next, disks+": sieved restore makes a new cluster from a backup."), " ")
}

// otherVersion reports whether all silent nodes are refused because of their versions.
func (d *deduction) otherVersion() bool {
	return !slices.ContainsFunc(d.silent, func(n Node) bool { return n.Why != WhyVersion })
}

// survivor is the node whose directory recover should use: among those that have replicas of all groups, the one with
// the newest log in most groups, then the one with the most entries. The longest log may not be the newest one: a
// leader that was cut off may have entries that were never acknowledged, and lack acknowledged ones of its successor.
func (d *deduction) survivor() (best string) {
	have, newest, sum := map[string]int{}, map[string]int{}, map[string]uint64{}
	for _, g := range d.Groups {
		top := Replica{}
		for _, r := range g.Replicas {
			if r.Works() && r.newer(top) > 0 {
				top = r
			}
		}
		for _, r := range g.Replicas {
			if !r.Works() {
				continue
			}
			have[r.Node]++
			sum[r.Node] += max(r.Applied, r.Last)
			if r.newer(top) == 0 {
				newest[r.Node]++
			}
		}
	}
	for _, n := range d.Nodes {
		if have[n.ID] == len(d.Groups) && (best == "" ||
			cmp.Or(cmp.Compare(newest[n.ID], newest[best]), cmp.Compare(sum[n.ID], sum[best])) > 0) {
			best = n.ID
		}
	}
	return best
}

func (d *deduction) leaders() {
	var groups []kv.GroupID
	longest := int64(0)
	for i := range d.Groups {
		if g := &d.Groups[i]; g.Leader == "" && !slices.Contains(d.stuck, g.Group) {
			groups = append(groups, g.Group)
			longest = max(longest, g.LeaderlessMs)
		}
	}
	if len(groups) == 0 {
		return
	}
	f := Finding{Kind: KindNoLeader, Severity: Warning, Groups: groups,
		Text: fmt.Sprintf("Reads and writes%s wait for a leader.", d.in(groups)),
		Next: fmt.Sprintf("An election usually takes up to %s.", Duration(milliseconds(2*d.HeartbeatMs)))}
	if longest > leaderlessBeats*d.HeartbeatMs {
		f.Severity = Critical
		f.Text = fmt.Sprintf("No reads and no writes%s: there has been no leader for %s.", d.in(groups),
			Duration(milliseconds(longest)))
		f.Next = "The logs of the nodes say why elections fail: votes need the log's disk and the network between " +
			"all nodes."
	}
	d.add(f)
}

func (d *deduction) full() {
	var full, low []string
	for _, n := range d.Nodes {
		f := n.Figures
		switch {
		case n.State == Full:
			full = append(full, n.ID)
		case n.Answered && f != nil && f.DiskReserveBytes > 1 && f.DiskFreeBytes < 2*f.DiskReserveBytes:
			low = append(low, fmt.Sprintf("node %s has %s", n.ID, Bytes(f.DiskFreeBytes)))
		}
	}
	if len(low) > 0 {
		d.add(Finding{Kind: KindDiskLow, Severity: Warning, Text: fmt.Sprintf("Little disk space is free: %s.",
			strings.Join(low, ", ")),
			Next: "Free space, or add a node. Below --disk-reserve, a node refuses writes."})
	}
	if len(full) == 0 {
		return
	}
	var refused []kv.GroupID // as long as another node has space, no full one leads
	for _, g := range d.Groups {
		if slices.Contains(full, g.Leader) {
			refused = append(refused, g.Group)
		}
	}
	f := Finding{Kind: KindDiskFull, Severity: Warning, Nodes: full, Groups: refused}
	are, its := "is full: it refuses writes, and others lead its groups", "the disk of node "+full[0]
	if len(full) > 1 {
		are, its = "are full: they refuse writes, and others lead their groups", "the disks of "+nodesText(full, "and")
	}
	f.Text = strings.ToUpper(its[:1]) + its[1:] + " " + are + "."
	f.Next = "Free disk space there, or add a node. Writes resume by themselves."
	if len(refused) > 0 {
		f.Severity = Critical
		f.Text = fmt.Sprintf("No writes%s: %s %s.", d.in(refused), its, are[:strings.Index(are, ":")])
		if refused[0] == 0 { // it has the map, to which no node is added now
			f.Next = "Free disk space there: no node can join before. Writes resume by themselves."
		}
	}
	d.add(f)
}

// untilSpace is what happens to logs and replicas that a full disk has stopped.
const untilSpace = "That ends by itself once the disk has space."

func (d *deduction) logs() {
	for _, n := range d.Nodes {
		if n.Answered && n.Figures != nil && n.Figures.Log != "" {
			f := Finding{Kind: KindLogFailed, Severity: Warning, Nodes: []string{n.ID},
				Text: fmt.Sprintf("The log of node %s does not work, and so none of its replicas: %s.",
					n.ID, strings.TrimRight(n.Figures.Log, ".")),
				Next: "The node joins again by itself, with an empty log, once its disk works and the others have " +
					"a majority."}
			if n.State == Full {
				f.Next = untilSpace
			}
			d.add(f)
		}
	}
}

func (d *deduction) failures() {
	groups, why := map[string][]kv.GroupID{}, map[string]string{}
	full, explained := map[string]bool{}, map[string]bool{}
	for _, n := range d.Nodes {
		full[n.ID] = n.State == Full
		explained[n.ID] = n.Answered && n.Figures != nil && n.Figures.Log != "" // by logs
	}
	for _, g := range d.Groups {
		for _, r := range g.Replicas {
			if r.Known && r.Failed != "" && !explained[r.Node] {
				groups[r.Node] = append(groups[r.Node], g.Group)
				why[r.Node] = cmp.Or(why[r.Node], r.Failed)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		what, it := "replica of %s does", "It is"
		if len(groups[id]) > 1 {
			what, it = "replicas of %s do", "They are"
		}
		f := Finding{Kind: KindReplicaFailed, Severity: Warning, Nodes: []string{id}, Groups: groups[id],
			Text: fmt.Sprintf("On node %s, the "+what+" not work: %s.", id, GroupsText(groups[id]),
				strings.TrimRight(why[id], ".")),
			Next: fmt.Sprintf("%s replaced from another node without you. If not, the log of node %s says why.", it, id)}
		switch {
		case full[id]:
			f.Next = untilSpace
		case slices.ContainsFunc(groups[id], d.lost):
			f.Next = onlyHere
		}
		d.add(f)
	}
}

// onlyHere is the next step if what is lost was nowhere else.
const onlyHere = "No other node has its data: sieved restore makes a new cluster from a backup."

// lost reports whether no replica of a group works, nor one of a silent node may.
func (d *deduction) lost(group kv.GroupID) bool {
	return !slices.ContainsFunc(d.Groups, func(g Group) bool {
		return g.Group == group && slices.ContainsFunc(g.Replicas, func(r Replica) bool {
			return !r.Known || r.Works()
		})
	})
}

func (d *deduction) damage() {
	next := "It is healed by itself from other replicas, if a majority of them is sound: stop no other node before. If " +
		"it stays, sieved remove this node or another damaged one, and let it join with an empty --dir."
	if len(d.Nodes) == 1 {
		next = onlyHere
	}
	for _, n := range d.Nodes {
		if !n.Answered || n.Figures == nil || len(n.Figures.Damage) == 0 {
			continue
		}
		text := fmt.Sprintf("On node %s, %s", n.ID, strings.TrimRight(n.Figures.Damage[0], "."))
		if more := len(n.Figures.Damage) - 1; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		d.add(Finding{Kind: KindDamage, Severity: Warning, Nodes: []string{n.ID}, Text: text + ".", Next: next})
	}
}

func (d *deduction) silence() {
	if len(d.silent) == 0 || d.explained() {
		return
	}
	var ids, wanted []string // wanted: those that are not being removed
	voices := false
	for _, n := range d.silent {
		ids = append(ids, n.ID)
		voices = voices || n.Replicas > 0
		if !n.leaves() {
			wanted = append(wanted, n.ID)
		}
	}
	f := Finding{Kind: KindSilent, Severity: Warning, Nodes: ids, Text: d.quiet()}
	thin := d.thin()
	so, stop := "reads and writes continue", "stop them"
	if d.waits() {
		so, stop = "each group has a majority", "end that"
	}
	switch {
	case len(d.stuck) > 0:
		f.Text += "."
	case !voices:
		f.Text += ", without replicas: " + so + "."
	case len(thin) > 0:
		f.Text += fmt.Sprintf(": %s, but one more would %s%s.", so, stop, d.in(thin))
	default:
		f.Text += fmt.Sprintf(": %s, and one more may fail.", so)
	}
	switch {
	case d.otherVersion():
		f.Next = sameVersion
	case len(wanted) > 0:
		f.Next = fmt.Sprintf("Start %s, or mend the network. If a disk is gone: start the node with the same --id, an "+
			"empty --dir and --join.", nodesText(wanted, "and"))
	}
	if len(wanted) == 0 {
		d.add(f)
		return
	}
	switch rest := len(d.Nodes) - len(d.silent); {
	case rest < d.Replicas || len(d.stuck) > 0 || d.otherVersion():
	case voices:
		f.Next += fmt.Sprintf(" Its replicas move to other nodes after %s of silence, or at once if it is removed: sieved remove %s.",
			Duration(milliseconds(d.DeadAfterMs)), join(wanted, "or"))
	default:
		f.Next += fmt.Sprintf(" If it will not return: sieved remove %s.", join(wanted, "or"))
	}
	d.add(f)
}

// waits reports whether clients have to wait, or get errors, although no majority is lost.
func (d *deduction) waits() bool {
	return slices.ContainsFunc(d.findings, func(f Finding) bool {
		return f.Severity == Critical || f.Kind == KindNoLeader
	})
}

// explained reports whether the sentence about lost majorities is about all groups, so that it has said all about
// silence.
func (d *deduction) explained() bool { return len(d.Groups) > 0 && len(d.stuck) == len(d.Groups) }

// thin returns the groups that stop if one more voter fails.
func (d *deduction) thin() (groups []kv.GroupID) {
	for i := range d.Groups {
		if _, working, majority := d.Groups[i].Tally(); working <= majority {
			groups = append(groups, d.Groups[i].Group)
		}
	}
	return groups
}

func (d *deduction) disks() {
	for _, n := range d.Nodes {
		if n.Figures == nil || !n.Answered {
			continue
		}
		if p99 := time.Duration(n.Figures.FsyncP99Us) * time.Microsecond; p99 > milliseconds(d.HeartbeatMs)/4 {
			d.add(Finding{Kind: KindSlowDisk, Severity: Warning, Nodes: []string{n.ID},
				Text: fmt.Sprintf("The disk of node %s is slow: one fsync in a hundred takes %s. Writes wait for "+
					"it, and leaders may be replaced.", n.ID, Duration(p99)),
				Next: "Look for what else uses the disk. --heartbeat must be several times the slowest fsync."})
		}
	}
}

func (d *deduction) lag() {
	groups, most := map[string][]kv.GroupID{}, map[string]uint64{}
	for _, g := range d.Groups {
		for _, r := range g.Replicas {
			if r.Works() && r.Lag > lagLimit {
				groups[r.Node] = append(groups[r.Node], g.Group)
				most[r.Node] = max(most[r.Node], r.Lag)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		d.add(Finding{Kind: KindLagging, Severity: Warning, Nodes: []string{id}, Groups: groups[id],
			Text: fmt.Sprintf("Node %s is up to %s entries behind in %s.", id, Number(most[id]),
				GroupsText(groups[id])),
			Next: "It catches up after a restart or a copy. If the number grows, its disk, processor or network is " +
				"too slow."})
	}
}

func (d *deduction) placement() {
	staying := map[string]bool{}
	for _, n := range d.Nodes {
		if !n.leaves() {
			staying[n.ID] = true
		}
	}
	if len(staying) < d.Replicas {
		d.add(Finding{Kind: KindFewNodes, Severity: Note,
			Text: fmt.Sprintf("The cluster has %s for %s of each group.", count(len(staying), "node"),
				count(d.Replicas, "replica")),
			Next: "More nodes join with --join."})
		return
	}
	var groups []kv.GroupID
	for _, g := range d.Groups {
		voters := 0
		for _, r := range g.Replicas {
			if r.Voter && staying[r.Node] {
				voters++
			}
		}
		if voters < d.Replicas && len(g.Replicas) > 0 {
			groups = append(groups, g.Group)
		}
	}
	if len(groups) > 0 {
		d.add(Finding{Kind: KindFewReplicas, Severity: Warning, Groups: groups,
			Text: fmt.Sprintf("Fewer than %d voters%s.", d.Replicas, cmp.Or(d.in(groups), " in all groups")),
			Next: "They are added by themselves, one group after another. If that does not proceed, nodes have too " +
				"little disk space or are silent."})
	}
}

func (d *deduction) leaving() {
	for _, n := range d.Nodes {
		if !n.leaves() {
			continue
		}
		f := Finding{Kind: KindLeaving, Severity: Note, Nodes: []string{n.ID},
			Text: fmt.Sprintf("Node %s is being removed: %s still to be moved.", n.ID, count(n.Replicas, "replica"))}
		if n.Replicas > 0 && len(d.silent) > 0 {
			f.Next = "A voter is removed only while a majority of the others answers."
		}
		d.add(f)
	}
}

func (d *deduction) versions() {
	nodes := map[string][]string{}
	for _, n := range d.Nodes {
		if n.Figures != nil && n.Figures.Version != "" && n.Answered {
			nodes[n.Figures.Version] = append(nodes[n.Figures.Version], n.ID)
		}
	}
	if len(nodes) < 2 {
		return
	}
	var each []string
	for _, version := range slices.Sorted(maps.Keys(nodes)) {
		each = append(each, fmt.Sprintf("%s on %s", version, nodesText(nodes[version], "and")))
	}
	d.add(Finding{Kind: KindVersions, Severity: Note, Text: fmt.Sprintf("Nodes run different versions: %s.",
		strings.Join(each, "; ")),
		Next: "Finish the upgrade."})
}
