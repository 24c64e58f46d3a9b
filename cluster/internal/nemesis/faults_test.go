package nemesis

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

// probeKey returns a key of a group that no client uses.
func probeKey(group, groups int) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("probe-%d", i)
		if slot.GroupOf(slot.Of([]byte(key)), groups) == kv.GroupID(group) {
			return key
		}
	}
}

// outage is how long links stay cut and nodes stay down: longer than an election.
func outage(rnd *rand.Rand) time.Duration {
	return 3*heartbeat + time.Duration(rnd.IntN(int(2*heartbeat)))
}

// between returns the links from some nodes to others.
func between(from, to []*member) (links []link) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				links = append(links, link{a.addr, b.addr})
			}
		}
	}
	return links
}

func both(a, b []*member) []link { return append(between(a, b), between(b, a)...) }

// around returns all links of a node.
func (c *testCluster) around(m *member) []link { return both([]*member{m}, c.others(m)) }

// cutFor cuts links for a while. Connections over them are reset, or continue late.
func cutFor(c *testCluster, rnd *rand.Rand, links []link) {
	c.net.cutLinks(links...)
	time.Sleep(outage(rnd))
	c.net.heal(rnd.IntN(2) == 0)
}

func (c *testCluster) anyLeader(rnd *rand.Rand) *member {
	return c.leader(kv.GroupID(rnd.IntN(groups)))
}

func (c *testCluster) anyMember(rnd *rand.Rand) *member { return c.members[rnd.IntN(len(c.members))] }

// cutLeader returns a fault that cuts links between a leader and the others.
func cutLeader(links func(leader, others []*member) []link) func(*testCluster, *rand.Rand) (string, error) {
	return func(c *testCluster, rnd *rand.Rand) (string, error) {
		m := c.anyLeader(rnd)
		cutFor(c, rnd, links([]*member{m}, c.others(m)))
		return string(m.id), nil
	}
}

var (
	isolateLeader = cutLeader(both)
	deafLeader    = cutLeader(func(leader, others []*member) []link { return between(others, leader) })
	muteLeader    = cutLeader(between)
)

// bridge lets one node see all others, which do not see each other.
func bridge(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyMember(rnd)
	cutFor(c, rnd, both(c.others(m), c.others(m)))
	return string(m.id), nil
}

// ring lets each node see its neighbours only: of five nodes, each sees another majority.
func ring(c *testCluster, rnd *rand.Rand) (string, error) {
	var links []link
	n := len(c.members)
	for i, a := range c.members {
		for j, b := range c.members {
			if d := (i - j + n) % n; d > 1 && d < n-1 {
				links = append(links, link{a.addr, b.addr})
			}
		}
	}
	cutFor(c, rnd, links)
	return "", nil
}

func slowLinks(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyMember(rnd)
	delay := time.Duration(rnd.IntN(int(heartbeat)))
	c.net.slowLinks(delay, c.around(m)...)
	time.Sleep(outage(rnd))
	c.net.heal(false)
	return fmt.Sprintf("%s by %s", m.id, delay), nil
}

func restart(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyLeader(rnd)
	if err := m.close(); err != nil {
		return "", err
	}
	return string(m.id), c.start(m, 0)
}

func killOne(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyLeader(rnd)
	c.kill(m, rnd.IntN(2) == 0)
	time.Sleep(outage(rnd))
	return string(m.id), c.start(m, 0)
}

// lastWitness cuts a node off, so that only the other two have what is then acknowledged. One of them loses its power,
// the other is isolated, and the first returns: what was acknowledged is on the disk of the second or nowhere.
func lastWitness(c *testCluster, rnd *rand.Rand) (string, error) {
	leader := c.anyLeader(rnd)
	rest := c.others(leader)
	rnd.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	away, witness := rest[0], rest[1]
	c.net.cutLinks(c.around(away)...)
	time.Sleep(outage(rnd))
	c.kill(witness, true)
	c.net.heal(true)
	c.net.cutLinks(c.around(leader)...)
	err := c.start(witness, 0)
	time.Sleep(outage(rnd))
	c.net.heal(true)
	return fmt.Sprintf("leader %s, witness %s, away %s", leader.id, witness.id, away.id), err
}

// killAll ends all nodes at almost the same time, all by power cuts or all by kills.
func killAll(c *testCluster, rnd *rand.Rand) (string, error) {
	powerCut := rnd.IntN(3) > 0
	for _, i := range rnd.Perm(len(c.members)) {
		c.kill(c.members[i], powerCut)
	}
	for _, i := range rnd.Perm(len(c.members)) {
		if err := c.start(c.members[i], 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("power cut: %t", powerCut), nil
}

// snapshots shortens all logs while a node is cut off, so that it needs a snapshot.
func snapshots(c *testCluster, rnd *rand.Rand) (string, error) {
	return snapshotsWithout(c, rnd, c.anyMember(rnd))
}

func snapshotsWithout(c *testCluster, rnd *rand.Rand, m *member) (string, error) {
	c.net.cutLinks(c.around(m)...)
	deadline := time.Now().Add(outage(rnd))
	taken := 0
	for time.Now().Before(deadline) {
		for _, other := range c.members {
			for group := range groups {
				if other.operate("RAFT.SNAPSHOT", fmt.Sprint(group)) == nil {
					taken++
				}
			}
		}
		time.Sleep(heartbeat / 4)
	}
	c.net.heal(rnd.IntN(2) == 0)
	return fmt.Sprintf("%d, while %s is cut off", taken, m.id), nil
}

func transfers(c *testCluster, rnd *rand.Rand) (string, error) {
	moved := 0
	for range 6 {
		to := c.anyMember(rnd)
		if c.anyMember(rnd).operate("RAFT.TRANSFER", fmt.Sprint(rnd.IntN(groups)), string(to.id)) == nil {
			moved++
		}
		time.Sleep(heartbeat / 4)
	}
	return fmt.Sprint(moved), nil
}

// flipped is a damaged file. What is wrong with a table may show late: when it is read, merged or sent.
type flipped struct {
	m    *member
	name string
}

// bitFlips damages the state of a group on a node that is down. Only a minority may be damaged at a time, so it is
// the same node again while that has a damaged file.
func bitFlips(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.damagedOr(c.anyLeader(rnd))
	what, names, err := damage(c, rnd, m, fmt.Sprintf("group-%04d", rnd.IntN(groups)))
	for _, name := range names {
		c.flipped = append(c.flipped, flipped{m, name})
	}
	return what, err
}

// damagedOr returns the node that has a damaged file, or m.
func (c *testCluster) damagedOr(m *member) *member {
	c.flipped = slices.DeleteFunc(c.flipped, func(f flipped) bool {
		_, err := f.m.disk.mem.Stat(f.name)
		return err != nil
	})
	if len(c.flipped) > 0 {
		return c.flipped[0].m
	}
	return m
}

// flipRunning damages tables of a state under a node that runs, and waits until its scrub has read all files twice
// since. Clients may find nothing: the database has the tables open, and the damaged files are read by the scrub only.
func flipRunning(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.damagedOr(c.anyMember(rnd))
	group := rnd.IntN(groups)
	if err := m.node.WithState(kv.GroupID(group), (*db.DB).Flush); err != nil {
		return fmt.Sprintf("%s has no replica that works: %v", m.id, err), nil
	}
	tables := slices.DeleteFunc(m.disk.files(filepath.Join(nodeDir, fmt.Sprintf("group-%04d", group))),
		func(name string) bool { return filepath.Ext(name) != ".ldb" || strings.Contains(name, ".damaged") })
	if len(tables) == 0 {
		return "there is no table yet", nil
	}
	name, before := tables[rnd.IntN(len(tables))], m.node.Scrubbed()
	if err := m.disk.flip(name, rnd); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	require.Eventually(c.t, func() bool {
		s := m.node.Scrubbed()
		return s.Passes >= before.Passes+2 && s.Healed == s.Found
	}, recovery, 5*time.Millisecond, "the damage of %s on %s is not healed", name, m.id)
	return fmt.Sprintf("%s, %s: found %d", m.id, name, m.node.Scrubbed().Found-before.Found), nil
}

// flipLog damages the log of a node that is down. The node may have forgotten votes and entries that
// it has acknowledged, so it must not vote as the server that it was. Until the others have replaced that server,
// one more loss would leave a group without a majority for ever, as in each such system.
func flipLog(c *testCluster, rnd *rand.Rand) (string, error) {
	c.waitReplicas(len(c.members))
	what, _, err := damage(c, rnd, c.anyLeader(rnd), "log")
	return what, err
}

func damage(c *testCluster, rnd *rand.Rand, m *member, dir string) (what string, names []string, err error) {
	c.kill(m, false)
	names, err = m.disk.damage(filepath.Join(nodeDir, dir), rnd, 2)
	if err != nil {
		return "", names, err
	}
	time.Sleep(outage(rnd))
	return fmt.Sprintf("%s, %v", m.id, names), names, c.start(m, 0)
}

func fullDisk(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyLeader(rnd)
	m.disk.full.Store(true)
	time.Sleep(2 * outage(rnd))
	m.disk.full.Store(false)
	return string(m.id), nil
}

// clocks lets the clocks of nodes jump ahead and back.
func clocks(c *testCluster, rnd *rand.Rand) (string, error) {
	for range 4 {
		m := c.anyMember(rnd)
		m.skew.Store(int64(rnd.IntN(120_000)) - 60_000)
		_ = c.anyMember(rnd).operate("RAFT.TRANSFER", fmt.Sprint(rnd.IntN(groups)), string(m.id)) // a leader by that clock
		time.Sleep(heartbeat)
	}
	return "", nil
}

// pauseClients stops all clients for longer than their deadlines, with their requests on the way, while a leader is
// isolated or not. Then they continue with what has arrived meanwhile.
func pauseClients(c *testCluster, rnd *rand.Rand) (string, error) {
	resume := c.clients.Pause()
	defer resume()
	what := "nothing else"
	if rnd.IntN(2) == 0 {
		what = "a leader was isolated"
		m := c.anyLeader(rnd)
		cutFor(c, rnd, c.around(m))
	}
	time.Sleep(replyTimeout + heartbeat/2)
	return what, nil
}

// failDuringHealing lets another node fail while one heals, of which the log is damaged or the data is old.
func failDuringHealing(c *testCluster, rnd *rand.Rand) (what string, err error) {
	c.waitReplicas(len(c.members))
	m := c.anyLeader(rnd)
	if rnd.IntN(2) == 0 {
		what, _, err = damage(c, rnd, m, "log")
	} else {
		m = c.anyMember(rnd)
		what, err = snapshotsWithout(c, rnd, m)
	}
	if err != nil {
		return what, err
	}
	time.Sleep(time.Duration(rnd.IntN(int(heartbeat)))) // it heals
	other := c.others(m)[rnd.IntN(len(c.members)-1)]
	if rnd.IntN(2) == 0 {
		cutFor(c, rnd, c.around(other))
		return fmt.Sprintf("%s; then %s was isolated", what, other.id), nil
	}
	c.kill(other, rnd.IntN(2) == 0)
	time.Sleep(outage(rnd))
	return fmt.Sprintf("%s; then %s was killed", what, other.id), c.start(other, 0)
}

// threeNodeFaults are those that a cluster of three nodes survives.
var threeNodeFaults = []fault[*testCluster]{
	{"the leader is isolated", isolateLeader},
	{"the leader hears nothing", deafLeader},
	{"no node hears the leader", muteLeader},
	{"two nodes see only the third", bridge},
	{"links are slow", slowLinks},
	{"a node is restarted", restart},
	{"a node is killed", killOne},
	{"all nodes are killed", killAll},
	{"the last witness loses its power", lastWitness},
	{"logs are shortened", snapshots},
	{"leaderships are transferred", transfers},
	{"bits flip", bitFlips},
	{"bits flip under a running node", flipRunning},
	{"a disk is full", fullDisk},
	{"clocks jump", clocks},
	{"clients are paused", pauseClients},
}

// killTwo ends two of five nodes: the others continue.
func killTwo(c *testCluster, rnd *rand.Rand) (string, error) {
	order := rnd.Perm(len(c.members))[:2]
	for _, i := range order {
		c.kill(c.members[i], rnd.IntN(2) == 0)
	}
	time.Sleep(outage(rnd))
	for _, i := range order {
		if err := c.start(c.members[i], 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(order), nil
}

// fiveNodeFaults are those that are different among five nodes.
var fiveNodeFaults = []fault[*testCluster]{
	{"each node sees another majority", ring},
	{"two nodes are killed", killTwo},
	{"the leader hears nothing", deafLeader},
}

// replace adds a node and removes another one while a link is cut.
func replace(c *testCluster, rnd *rand.Rand) (string, error) {
	old := c.anyMember(rnd)
	fresh := c.add(0)
	if err := fresh.operate("RAFT.REMOVE", string(old.id)); err != nil {
		return "", err
	}
	cut := c.others(old)
	i := rnd.IntN(len(cut))
	c.net.cutLinks(link{cut[i].addr, cut[(i+1)%len(cut)].addr})
	time.Sleep(outage(rnd))
	c.net.heal(rnd.IntN(2) == 0)
	if err := c.waitRemoved(old); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s by %s", old.id, fresh.id), nil
}

// addDuringKill adds a node while another one is down, which then returns.
func addDuringKill(c *testCluster, rnd *rand.Rand) (string, error) {
	m := c.anyMember(rnd)
	c.kill(m, true)
	fresh := c.add(0)
	return fmt.Sprintf("%s, while %s is down", fresh.id, m.id), c.start(m, 0)
}

// removeDuringKill removes a node while another one is down. Each group keeps three replicas, so a fourth node must be
// there to take those of the one that leaves.
func removeDuringKill(c *testCluster, rnd *rand.Rand) (string, error) {
	if len(c.members) < 4 {
		c.add(0)
	}
	order := rnd.Perm(len(c.members))
	old, down, asked := c.members[order[0]], c.members[order[1]], c.members[order[2]]
	if err := asked.operate("RAFT.REMOVE", string(old.id)); err != nil {
		return "", err
	}
	c.kill(down, true)
	time.Sleep(outage(rnd))
	if err := c.start(down, 0); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, while %s is down", old.id, down.id), c.waitRemoved(old)
}

var membershipFaults = []fault[*testCluster]{
	{"a node is replaced", replace},
	{"a node is added", addDuringKill},
	{"a node is removed", removeDuringKill},
}
