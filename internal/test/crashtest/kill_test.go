package crashtest

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

var (
	killCycles = flag.Int("kill.cycles", 50, "how often the kill test kills its child")
	killSeed   = flag.Uint64("kill.seed", 0,
		"seed of what the kill test writes and when it kills; 0 chooses a random one")
	killDir = flag.String("kill.dir", "",
		"directory for the kill test, which chooses the file system; empty means a temporary one")
	killPower = flag.String("kill.powercut", "",
		"shell command that makes the file system of -kill.dir lose unsynced data; run after each kill")
)

func TestMain(m *testing.M) {
	if task := os.Getenv(killTaskEnv); task != "" {
		writeUntilKilled(task)
	}
	os.Exit(fixture.Run(m))
}

// killed has the sums of several kills.
type killed struct{ acknowledged, unanswered, openings, lost int }

// killRepeatedly has a child process write with four writers, syncing one batch in sixteen, and kills it repeatedly on
// one database. Each time, all batches that must says must be there; no batch may be there in part, and none that the
// child was not about to write. The batches of each writer that are there are a prefix.
//
// The child is killed after a seeded number of acknowledgements, or when it has begun to open. The
// machine decides where in the store's work that is.
func killRepeatedly(t *testing.T, cycles int, buffered bool, must func(killReport) [killWriters]int) (sum killed) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("-kill.seed=%d -kill.cycles=%d", seed, *killCycles)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := killTestDir(t)
	o := &killOracle{seed: seed}
	for cycle := range cycles {
		goal := int(rnd.ExpFloat64() * 1000)
		if rnd.IntN(5) == 0 {
			goal = -1 // kill it while it opens
			sum.openings++
		}
		said := runKilledChild(t, killTask{Dir: dir, Seed: seed, Cycle: cycle, Done: o.applied, Buffered: buffered}, goal)
		before := o.applied
		if *killPower != "" {
			cutPower(t)
		}
		require.NoError(t, o.check(readKilled(t, dir, rnd), must(said), said.issued), "cycle %d", cycle)
		for w := range killWriters {
			sum.acknowledged += said.acknowledged[w] - before[w]
			sum.unanswered += said.issued[w] - said.acknowledged[w]
			sum.lost += max(0, said.acknowledged[w]-o.applied[w])
		}
	}
	t.Logf("%d kills, %d of them while opening; %d batches acknowledged, %d cut off, %d lost",
		cycles, sum.openings, sum.acknowledged, sum.unanswered, sum.lost)
	return sum
}

// All acknowledged batches are there, synced or not.
//
// With -kill.powercut the file system loses unsynced data with each kill. Then each acknowledged
// synced batch must be there, with all batches that were acknowledged before it was issued.
func TestKilledProcessesLoseNoAcknowledgedWrite(t *testing.T) {
	cycles := *killCycles
	if testing.Short() {
		cycles = min(cycles, 10)
	}
	sum := killRepeatedly(t, cycles, false, func(said killReport) [killWriters]int {
		if *killPower != "" {
			return said.durable
		}
		return said.acknowledged
	})
	// False alarms: 50 goals are drawn, of which four in five are numbers with a mean of 1,000.
	// That they add up to 7,500 or less has a probability of 5 × 10^-12.
	if cycles >= 50 {
		require.Greater(t, sum.acknowledged, 150*cycles)
	}
}

// killTestDir returns an empty directory for the database.
func killTestDir(t *testing.T) string {
	if *killDir == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*killDir, "kill")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func cutPower(t *testing.T) {
	out, err := exec.Command("sh", "-c", *killPower).CombinedOutput()
	require.NoError(t, err, "-kill.powercut: %s", out)
}

// Most batches are buffered and may be lost with the process. Each acknowledged batch that is not buffered is there,
// with all batches that were acknowledged before it was issued.
func TestKilledProcessesLoseOnlyTheLastBufferedWrites(t *testing.T) {
	cycles := min(*killCycles, 15)
	if testing.Short() {
		cycles = min(cycles, 5)
	}
	killRepeatedly(t, cycles, true, func(said killReport) [killWriters]int {
		if *killPower != "" {
			return said.durable
		}
		return said.handedOver
	})
}

func TestAFalseAcknowledgementIsFound(t *testing.T) {
	task := killTask{Dir: t.TempDir(), Seed: 1, Lie: true}
	said := runKilledChild(t, task, 300)
	err := (&killOracle{seed: task.Seed}).check(readKilled(t, task.Dir, rand.New(rand.NewPCG(1, 1))), said.acknowledged, said.issued)
	require.ErrorContains(t, err, "batches acknowledged")
}

// killReport has the numbers of batches that a child reported for each writer. durable are those
// that were acknowledged before an acknowledged synced batch was issued, and that batch. handedOver
// are the same for batches that are not buffered.
type killReport struct{ issued, acknowledged, durable, handedOver [killWriters]int }

// acknowledge records that batch number of writer was acknowledged. before are the batches that were
// acknowledged when it was issued.
func (r *killReport) acknowledge(task *killTask, writer, number int, before [killWriters]int) {
	r.acknowledged[writer] = number
	b := killBatch(task.Seed, writer, number)
	before[writer] = number
	for w := range before {
		if b.Sync {
			r.durable[w] = max(r.durable[w], before[w])
		}
		if !task.isBuffered(b) {
			r.handedOver[w] = max(r.handedOver[w], before[w])
		}
	}
}

// runKilledChild runs a child and kills it when it has acknowledged more than goal batches or, if goal
// is negative, has begun to open. It reads all that the child had written to the pipe by its death.
func runKilledChild(t *testing.T, task killTask, goal int) killReport {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), killTaskEnv+"="+task.String())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	said := killReport{task.Done, task.Done, task.Done, task.Done}
	var before [killWriters][killWriters]int // of each writer, when it issued its last batch
	killed, heard := false, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var what string
		var writer, number int
		switch _, err := fmt.Sscan(lines.Text(), &what, &writer, &number); {
		case err != nil || what == "error":
			t.Errorf("the child failed: %s", lines.Text())
		case what == "opening" && goal >= 0:
			continue
		case what == "issued":
			said.issued[writer] = number
			before[writer] = said.acknowledged
		case what == "acknowledged":
			said.acknowledge(&task, writer, number, before[writer])
			heard++
		}
		if heard > goal && !killed {
			killed = true
			require.NoError(t, child.Process.Kill())
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, child.Wait(), &exit)
	require.True(t, killed, "the child ended before it was killed: %v", exit)
	return said
}

// readKilled opens the database, read-only or for writing, and returns all its entries, read in one
// of the two directions.
func readKilled(t *testing.T, dir string, rnd *rand.Rand) (state []oracle.Entry) {
	t.Helper()
	readOnly := rnd.IntN(3) == 0
	d, err := db.Open(dir, &db.Options{ReadOnly: readOnly})
	if readOnly && errors.Is(err, fs.ErrNotExist) { // killed before the database existed
		return nil
	}
	require.NoError(t, err)
	backward := rnd.IntN(2) == 0
	entries, failed := d.All(nil)
	if backward {
		entries, failed = d.Backward(nil)
	}
	for k, v := range entries {
		state = append(state, oracle.Entry{Key: string(k), Value: string(v)})
	}
	require.NoError(t, failed())
	if backward {
		slices.Reverse(state)
	}
	for range min(8, len(state)) { // lookups take another path, through filters
		e := state[rnd.IntN(len(state))]
		storetest.RequireValue(t, d, []byte(e.Key), []byte(e.Value))
	}
	if rnd.IntN(5) == 0 {
		storetest.RequireNoFaults(t, d)
	}
	require.NoError(t, d.Close())
	return state
}

// killOracle knows the entries that a database may have after its writers were killed: of each writer the effect of
// its first batches, at least the acknowledged ones and at most the issued ones.
type killOracle struct {
	seed    uint64
	applied [killWriters]int // how many batches are known to be in the database
	batches [killWriters][]*oracle.Batch
}

// check compares the entries of the database with the batches of the writers. Batches that it finds must be there in
// all later checks.
func (o *killOracle) check(got []oracle.Entry, acknowledged, issued [killWriters]int) error {
	var own [killWriters][]oracle.Entry
	for _, e := range got {
		w := 0
		for ; w < killWriters && e.Key != oracle.MarkerKey(w) && !strings.HasPrefix(e.Key, fmt.Sprintf("%d/", w)); w++ {
		}
		if w == killWriters {
			return fmt.Errorf("no writer writes key %q", e.Key)
		}
		own[w] = append(own[w], e)
	}
	for w := range own {
		for n := len(o.batches[w]) + 1; n <= issued[w]; n++ {
			o.batches[w] = append(o.batches[w], killBatch(o.seed, w, n))
		}
		n, err := oracle.New(o.batches[w][:issued[w]]).Prefix(own[w])
		if err != nil {
			return fmt.Errorf("writer %d, %d batches acknowledged, %d issued: %w", w, acknowledged[w], issued[w], err)
		}
		if n < max(acknowledged[w], o.applied[w]) {
			return fmt.Errorf("writer %d: %d batches acknowledged, but the database has only %d", w, acknowledged[w], n)
		}
		o.applied[w] = n
	}
	return nil
}
