package overview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// healthy returns a cluster in which all is well: each group has replicas on the first nodes, and leaders by turns.
func healthy(nodes, groups, replicas int) *Overview {
	o := &Overview{Node: "1", Replicas: replicas, HeartbeatMs: 1000, DeadAfterMs: 300_000}
	for i := range nodes {
		o.Nodes = append(o.Nodes, Node{ID: fmt.Sprint(i + 1), State: Up, Answered: true, Figures: &Figures{
			Version: "v1.2.0", DiskFreeBytes: 10 << 30, DiskReserveBytes: 256 << 20, FsyncP99Us: 2000,
		}})
	}
	for group := range groups {
		g := Group{Group: kv.GroupID(group), Leader: fmt.Sprint(1 + group%replicas), Term: 3, Commit: 1000}
		for i := range replicas {
			g.Replicas = append(g.Replicas, Replica{Node: fmt.Sprint(i + 1),
				Voter: true, Known: true, Applied: 1000, Last: 1000})
			o.Nodes[i].Replicas++
		}
		o.Groups = append(o.Groups, g)
	}
	return o
}

// silence makes nodes silent. Their groups have no leader then.
func (o *Overview) silence(ms int64, why string, ids ...string) *Overview {
	for _, id := range ids {
		for i := range o.Nodes {
			if n := &o.Nodes[i]; n.ID == id {
				n.Answered, n.State, n.SilentMs, n.Why = false, Silent, ms, why
			}
		}
		o.eachReplica(func(g *Group, r *Replica) {
			if r.Node == id {
				r.Known = false
			}
			if g.Leader == id {
				g.Leader = ""
			}
		})
	}
	return o
}

func (o *Overview) eachReplica(f func(g *Group, r *Replica)) {
	for i := range o.Groups {
		for j := range o.Groups[i].Replicas {
			f(&o.Groups[i], &o.Groups[i].Replicas[j])
		}
	}
}

func (o *Overview) with(change func(o *Overview)) *Overview {
	change(o)
	return o
}

func (o *Overview) replica(group int, node string) *Replica {
	for i := range o.Groups[group].Replicas {
		if r := &o.Groups[group].Replicas[i]; r.Node == node {
			return r
		}
	}
	return nil
}

// led gives all groups the leader that is left after an election.
func (o *Overview) led(by string) *Overview {
	for i := range o.Groups {
		o.Groups[i].Leader = by
	}
	return o
}

const diskGone = " If a disk is gone: start the node with the same --id, an empty --dir and --join."

// situations have the sentences that an operator reads, with the severity before each.
var situations = []struct {
	name string
	o    func() *Overview
	want []string
}{
	{"all is well", func() *Overview { return healthy(3, 64, 3) }, nil},
	{"a majority is lost", func() *Overview {
		return healthy(3, 64, 3).silence(14_000, "connection refused", "2",
			"3").with(func(o *Overview) { o.Nodes[2].Why = "no answer in 1s" })
	}, []string{
		"critical no_majority No reads and no writes: 2 of 3 nodes are silent (node 2 for 14 s: connection " +
			"refused; node 3 for 14 s: no answer in 1s). " +
			"Start node 2 or 3, or mend the network if they run. If their disks are gone: sieved restore makes a " +
			"new cluster from a backup; " +
			"without one, stop node 1, whose log is the newest, and run sieved recover --id 1 --dir DIR " +
			"--accept-data-loss.",
	}},
	{"one of three is dead", func() *Overview {
		return healthy(3, 4, 3).silence(3000, "connection refused",
			"2").led("1")
	}, []string{
		"warning silent_node 1 of 3 nodes is silent (node 2 for 3 s: connection refused): reads and writes " +
			"continue, but one more would stop them. " +
			"Start node 2, or mend the network." + diskGone,
	}},
	{"one of five is dead", func() *Overview { return healthy(5, 4, 5).silence(3000, "", "2").led("1") }, []string{
		"warning silent_node 1 of 5 nodes is silent (node 2 for 3 s): reads and writes continue, and one more may " +
			"fail. Start node 2, or mend the network." + diskGone,
	}},
	{"one of four is dead and will be replaced", func() *Overview {
		return healthy(4, 4, 3).silence(3000, "",
			"2").led("1")
	}, []string{
		"warning silent_node 1 of 4 nodes is silent (node 2 for 3 s): reads and writes continue, but one more " +
			"would stop them. " +
			"Start node 2, or mend the network." + diskGone + " Its replicas move to other nodes after 5 min of " +
			"silence, or at once if it is removed: sieved remove 2.",
	}},
	{"one of three has another version", func() *Overview { return healthy(3, 4, 3).silence(3000, WhyVersion, "2").led("1") }, []string{
		"warning silent_node 1 of 3 nodes is silent (node 2 for 3 s: it speaks another version of the protocol between nodes): " +
			"reads and writes continue, but one more would stop them. " + sameVersion,
	}},
	{"all have different versions", func() *Overview { return healthy(3, 4, 3).silence(3000, WhyVersion, "2", "3") },
		[]string{
			"critical no_majority No reads and no writes through node 1: 2 of 3 nodes are silent (node 2 for 3 s: it speaks another version of the " +
				"protocol between nodes; node 3 for 3 s: it speaks another version of the protocol between nodes). " + sameVersion,
		}},
	{"a node without replicas is dead", func() *Overview { return healthy(4, 4, 3).silence(3000, "", "4") }, []string{
		"warning silent_node 1 of 4 nodes is silent (node 4 for 3 s), without replicas: reads and writes continue. " +
			"Start node 4, or mend the network." + diskGone + " If it will not return: sieved remove 4.",
	}},
	{"the node that was asked is cut off", func() *Overview {
		return healthy(3, 4, 3).silence(3000, "no answer in 1s", "2", "3")
	}, []string{
		"critical no_majority No reads and no writes through node 1: 2 of 3 nodes are silent (node 2 for 3 s: no answer " +
			"in 1s; node 3 for 3 s: no answer in 1s). " +
			"Start node 2 or 3, or mend the network if they run. If their disks are gone: sieved restore makes a " +
			"new cluster from a backup; " +
			"without one, stop node 1, whose log is the newest, and run sieved recover --id 1 --dir DIR " +
			"--accept-data-loss.",
	}},
	{"three of five are dead, and node 5 has the longest log", func() *Overview {
		return healthy(5, 4, 5).silence(200_000, WhyRefused, "1", "2",
			"3").with(func(o *Overview) { o.replica(3, "5").Last = 1010 })
	}, []string{
		"critical no_majority No reads and no writes: 3 of 5 nodes are silent (node 1 for 3 min: connection refused; " +
			"node 2 for 3 min: connection refused; node 3 for 3 min: connection refused). " +
			"Start node 1, 2 or 3, or mend the network if they run. If their disks are gone: sieved restore makes " +
			"a new cluster from a backup; " +
			"without one, stop node 5, whose log is the newest, and run sieved recover --id 5 --dir DIR " +
			"--accept-data-loss.",
	}},
	{"of two survivors, that with the longer log was a leader of before", func() *Overview {
		return healthy(5, 4, 5).silence(200_000, WhyRefused, "1", "2", "3").with(func(o *Overview) {
			o.eachReplica(func(_ *Group, r *Replica) { r.LastTerm = 3 })
			o.replica(3, "4").Last, o.replica(3, "5").LastTerm = 1200, 4
		})
	}, []string{
		"critical no_majority No reads and no writes: 3 of 5 nodes are silent (node 1 for 3 min: connection refused; " +
			"node 2 for 3 min: connection refused; node 3 for 3 min: connection refused). " +
			"Start node 1, 2 or 3, or mend the network if they run. If their disks are gone: sieved restore makes " +
			"a new cluster from a backup; " +
			"without one, stop node 5, whose log is the newest, and run sieved recover --id 5 --dir DIR " +
			"--accept-data-loss.",
	}},
	{"elections fail while a node is dead", func() *Overview {
		return healthy(3, 1, 3).silence(61_000, "", "1").with(func(o *Overview) { o.Groups[0].LeaderlessMs = 61_000 })
	}, []string{
		"critical no_leader No reads and no writes: there has been no leader for 61 s. The logs of the nodes say why " +
			"elections fail: votes need the log's disk and the network between all nodes.",
		"warning silent_node 1 of 3 nodes is silent (node 1 for 61 s): each group has a majority, but one more would " +
			"end that. Start node 1, or mend the network." + diskGone,
	}},
	{"some groups have lost their majority, and no survivor has all groups", func() *Overview {
		return healthy(5, 4, 3).with(func(o *Overview) {
			o.Groups[3].Replicas[2].Node = "4"
			o.Groups[3].Leader = "4"
		}).silence(9000, "", "2", "4").with(func(o *Overview) {
			for i := range 3 {
				o.Groups[i].Leader = "1"
			}
		}).with(func(o *Overview) { o.replica(2, "1").Absent = true })
	}, []string{
		"critical no_majority No reads and no writes through node 1 in 2 of 4 groups (2 and 3): 2 of 5 nodes are silent (node 2 " +
			"for 9 s; node 4 for 9 s), and replicas on node 1 do not work. " +
			"Start node 2 or 4, or mend the network if they run. The logs of the nodes say why their replicas do " +
			"not work. " +
			"If their disks are gone: sieved restore makes a new cluster from a backup.",
		"warning silent_node 2 of 5 nodes are silent (node 2 for 9 s; node 4 for 9 s). Start nodes 2 and 4, or " +
			"mend the network." + diskGone,
	}},
	{"voters of earlier incarnations count for the majority", func() *Overview {
		return healthy(3, 1, 3).with(func(o *Overview) {
			o.Groups[0].Gone = 2
			o.Groups[0].Replicas = o.Groups[0].Replicas[:1]
			o.Groups[0].Leader = ""
		})
	}, []string{
		"critical no_majority No reads and no writes: most voters are of nodes that lost their logs. ",
		"warning few_replicas Fewer than 3 voters in all groups. They are added by themselves, one group after " +
			"another. " +
			"If that does not proceed, nodes have too little disk space or are silent.",
	}},
	{"nobody who answers knows the voters of a group", func() *Overview {
		return healthy(4, 4, 3).silence(9000, WhyRefused, "1", "2", "3").with(func(o *Overview) {
			o.Node = "4"
			for i := range o.Groups {
				o.Groups[i].Replicas = nil
			}
		})
	}, []string{
		"critical no_majority No reads and no writes: 3 of 4 nodes are silent (node 1 for 9 s: connection refused; " +
			"node 2 for 9 s: connection refused; node 3 for 9 s: connection refused). " +
			"Start 2 of the nodes 1, 2 and 3, or mend the network if they run. If their disks are gone: sieved " +
			"restore makes a new cluster from a backup.",
	}},
	{"a group without others has lost its replica", func() *Overview {
		return healthy(1, 4, 1).with(func(o *Overview) { o.Groups[2].Leader, o.replica(2, "1").Failed = "", "its state is lost" })
	}, []string{
		"critical no_majority No reads and no writes in 1 of 4 groups (group 2): replicas on node 1 do not work. " +
			"The logs of the nodes say why their replicas do not work.",
		"warning replica_failed On node 1, the replica of group 2 does not work: its state is lost. " +
			"No other node has its data: sieved restore makes a new cluster from a backup.",
	}},
	{"an election runs", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Groups[1].Leader, o.Groups[1].LeaderlessMs = "", 900 })
	}, []string{"warning no_leader Reads and writes in 1 of 4 groups (group 1) wait for a leader. An election " +
		"usually takes up to 2 s."}},
	{"elections fail", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Groups[1].Leader, o.Groups[1].LeaderlessMs = "", 61_000 })
	}, []string{
		"critical no_leader No reads and no writes in 1 of 4 groups (group 1): there has been no leader for 61 s. " +
			"The logs of the nodes say why elections fail: votes need the log's disk and the network between all " +
			"nodes.",
	}},
}

// moreSituations are those in which nobody is silent.
var moreSituations = []struct {
	name string
	o    func() *Overview
	want []string
}{
	{"a disk is full", func() *Overview { return healthy(3, 4, 3).with(func(o *Overview) { o.Nodes[1].State = Full }).led("1") }, []string{
		"warning disk_full The disk of node 2 is full: it refuses writes, and others lead its groups. Free disk " +
			"space there, or add a node. Writes resume by themselves.",
	}},
	{"all disks are full", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			for i := range o.Nodes {
				o.Nodes[i].State = Full
			}
		})
	}, []string{
		"critical disk_full No writes: the disks of nodes 1, 2 and 3 are full. Free disk space there: no node can " +
			"join before. Writes resume by themselves.",
	}},
	{"a disk is nearly full", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Nodes[1].Figures.DiskFreeBytes = 300 << 20 })
	}, []string{
		"warning disk_low Little disk space is free: node 2 has 300 MiB. Free space, or add a node. Below " +
			"--disk-reserve, a node refuses writes.",
	}},
	{"a disk is slow", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Nodes[2].Figures.FsyncP99Us = 400_000 })
	}, []string{
		"warning slow_disk The disk of node 3 is slow: one fsync in a hundred takes 400 ms. Writes wait for it, " +
			"and leaders may be replaced. " +
			"Look for what else uses the disk. --heartbeat must be several times the slowest fsync.",
	}},
	{"replicas have failed", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			o.replica(0, "2").Failed, o.replica(2, "2").Failed = "the checksum of a block\nis wrong", "the same"
		})
	}, []string{
		"warning replica_failed On node 2, the replicas of groups 0 and 2 do not work: the checksum of a block is " +
			"wrong. " +
			"They are replaced from another node without you. If not, the log of node 2 says why.",
	}},
	{"a full disk has stopped a log", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			o.Nodes[1].State, o.Nodes[1].Figures.Log = Full, "no space left on device"
			o.eachReplica(func(_ *Group, r *Replica) {
				if r.Node == "2" {
					r.Failed = "no space left on device"
				}
			})
		}).led("1")
	}, []string{
		"warning disk_full The disk of node 2 is full: it refuses writes, and others lead its groups. Free disk " +
			"space there, or add a node. Writes resume by themselves.",
		"warning log_failed The log of node 2 does not work, and so none of its replicas: no space left on device. " +
			"That ends by itself once the disk has space.",
	}},
	{"a full disk has stopped a replica", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			o.Nodes[1].State, o.replica(3, "2").Failed = Full, "no space left on device"
		}).led("1")
	}, []string{
		"warning disk_full The disk of node 2 is full: it refuses writes, and others lead its groups. Free disk " +
			"space there, or add a node. Writes resume by themselves.",
		"warning replica_failed On node 2, the replica of group 3 does not work: no space left on device. " +
			"That ends by itself once the disk has space.",
	}},
	{"a scrub has found damage", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			o.Nodes[1].Figures.Damage = []string{"the scrub found damage in group 3: 000012.ldb: the checksum is wrong", "more"}
		})
	}, []string{
		"warning damage On node 2, the scrub found damage in group 3: 000012.ldb: the checksum is wrong; and 1 more. " +
			"It is healed by itself from other replicas, if a majority of them is sound: stop no other node before. " +
			"If it stays, sieved remove this node or another damaged one, and let it join with an empty --dir.",
	}},
	{"a scrub of the only node has found damage", func() *Overview {
		return healthy(1, 4, 1).with(func(o *Overview) { o.Nodes[0].Figures.Damage = []string{"this"} })
	}, []string{
		"warning damage On node 1, this. No other node has its data: sieved restore makes a new cluster from a backup.",
	}},
	{"a log has failed", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Nodes[0].Figures.Log = "input/output error" })
	}, []string{
		"warning log_failed The log of node 1 does not work, and so none of its replicas: input/output error. " +
			"The node joins again by itself, with an empty log, once its disk works and the others have a majority.",
	}},
	{"a replica lags", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) {
			o.replica(1, "3").Lag, o.replica(2, "3").Lag, o.replica(3, "2").Lag = 12345, 9000, 8000
		})
	}, []string{
		"warning lagging Node 3 is up to 12,345 entries behind in groups 1 and 2. It catches up after a restart or " +
			"a copy. " +
			"If the number grows, its disk, processor or network is too slow.",
	}},
	{"a node is alone", func() *Overview { return healthy(1, 4, 1).with(func(o *Overview) { o.Replicas = 3 }) },
		[]string{
			"note few_nodes The cluster has 1 node for 3 replicas of each group. More nodes join with --join.",
		}},
	{"a node leaves", func() *Overview {
		return healthy(4, 4, 3).with(func(o *Overview) { o.Nodes[3].State, o.Nodes[3].Replicas = Leaving, 1 })
	}, []string{"note leaving Node 4 is being removed: 1 replica still to be moved. "}},
	{"a silent node leaves", func() *Overview {
		return healthy(4, 4, 3).silence(3000, "", "3").with(func(o *Overview) { o.Nodes[2].Leaving = true }).led("1")
	}, []string{
		"warning silent_node 1 of 4 nodes is silent (node 3 for 3 s): reads and writes continue, but one more would " +
			"stop them. ",
		"warning few_replicas Fewer than 3 voters in all groups. They are added by themselves, one group after another. " +
			"If that does not proceed, nodes have too little disk space or are silent.",
		"note leaving Node 3 is being removed: 4 replicas still to be moved. A voter is removed only while a majority " +
			"of the others answers.",
	}},
	{"the node was removed", func() *Overview { return healthy(3, 4, 3).with(func(o *Overview) { o.Removed, o.Node = true, "4" }) }, []string{
		"critical removed Node 4 was removed from the cluster, and has no data any more. Stop it. To return, it " +
			"needs an empty --dir and --join.",
	}},
	{"an upgrade is under way", func() *Overview {
		return healthy(3, 4, 3).with(func(o *Overview) { o.Nodes[2].Figures.Version = "v1.3.0" })
	}, []string{
		"note versions Nodes run different versions: v1.2.0 on nodes 1 and 2; v1.3.0 on node 3. Finish the upgrade.",
	}},
}

func TestFindingsSayConsequencesAndTheNextStep(t *testing.T) {
	for _, c := range append(situations, moreSituations...) {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range Findings(c.o()) {
				got = append(got, fmt.Sprintf("%s %s %s %s", f.Severity, f.Kind, f.Text, f.Next))
				require.Contains(t, Kinds, f.Kind)
				require.NotContains(t, f.Text+f.Next, "  ")
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A page had 64 banners, one for each group without a leader.
func TestManyGroupsMakeOneFindingEach(t *testing.T) {
	o := healthy(3, 64, 3).silence(2000, "", "3")
	all := Findings(o)
	require.Len(t, all, 2)
	require.Contains(t, all[0].Text+all[1].Text, "Reads and writes in 21 of 64 groups (2, 5, 8, 11, 14 and 16 "+
		"more) wait for a leader.")
	o.eachReplica(func(_ *Group, r *Replica) { r.Failed = "x" })
	require.LessOrEqual(t, len(Findings(o)), 4)
}

func TestGroupsAreNamedShortly(t *testing.T) {
	for want, groups := range map[string][]kv.GroupID{
		"group 7": {7}, "groups 0 and 1": {0, 1}, "groups 0 to 2": {0, 1, 2},
		"groups 0 to 2, 5, 6 and 9":   {0, 1, 2, 5, 6, 9},
		"groups 1, 3, 5, 7, 9 and 11": {1, 3, 5, 7, 9, 11}, "groups 1, 3, 5, 7, 9 and 2 more": {1, 3, 5, 7, 9, 11, 13},
	} {
		require.Equal(t, want, GroupsText(groups))
	}
}

func TestFiguresAreWrittenForPeople(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 µs": 0, "250 µs": 250 * time.Microsecond, "2.5 ms": 2500 * time.Microsecond,
		"14 ms": 14 * time.Millisecond, "1 s": 1900 * time.Millisecond,
		"119 s": 119 * time.Second, "5 min": 5*time.Minute + 59*time.Second,
		"47 h": 47*time.Hour + time.Minute, "3 d": 80 * time.Hour,
	} {
		require.Equal(t, want, Duration(d))
	}
	for want, n := range map[string]int64{
		"0 B": 0, "1023 B": 1023, "1.0 KiB": 1024, "10 KiB": 10 << 10, "1.5 GiB": 3 << 29, "1.0 GiB": 1<<30 - 1, "2048 TiB": 1 << 51,
	} {
		require.Equal(t, want, Bytes(n))
	}
	require.Equal(t, "1,234,567 999 1,000", strings.Join([]string{Number(1234567), Number(999), Number(1000)}, " "))
}
