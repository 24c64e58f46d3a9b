package backup_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

var errDead = errors.New("the machine died")

// actor is a machine that works with the repository. Each of its storage operations waits for its turn.
type actor struct {
	arrive chan *actor
	turn   chan verdict
	// dead actors never reach the storage again. It is used by the actor's goroutine only.
	dead, dieAfter bool
}

// verdict says what happens to an operation.
type verdict int

const (
	goOn verdict = iota
	dieBefore
	dieAfter
)

func (a *actor) before(backuptest.Op) error {
	if a.dead {
		return errDead
	}
	a.arrive <- a
	v := <-a.turn
	a.dead, a.dieAfter = v == dieBefore, v == dieAfter
	if a.dead {
		return errDead
	}
	return nil
}

func (a *actor) after(backuptest.Op) error {
	if a.dieAfter {
		a.dead = true
		return errDead
	}
	return nil
}

func (a *actor) repository(s backup.Storage) *backup.Repository {
	return backup.Open(&backuptest.Hooked{Storage: s, Before: a.before, After: a.after})
}

// interleave runs actors so that one of them does one operation at a time, in random order. Each
// operation is the actor's last with probability death.
func interleave(rnd *rand.Rand, death float64, runs ...func(a *actor)) {
	arrive, finished := make(chan *actor), make(chan struct{})
	for _, run := range runs {
		a := &actor{arrive: arrive, turn: make(chan verdict)}
		go func() {
			defer func() { finished <- struct{}{} }()
			run(a)
		}()
	}
	var waiting []*actor
	for live := len(runs); live > 0; {
		if len(waiting) < live {
			select {
			case a := <-arrive:
				waiting = append(waiting, a)
			case <-finished:
				live--
			}
			continue
		}
		i := rnd.IntN(len(waiting))
		a := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		v := goOn
		if rnd.Float64() < death {
			v = dieBefore + verdict(rnd.IntN(2))
		}
		a.turn <- v
	}
}

// inAnyOrder runs a test with new seeds until one fails.
func inAnyOrder(t *testing.T, rounds, short int, run func(t *testing.T, rnd *rand.Rand)) {
	first := uint64(time.Now().UnixNano())
	if testing.Short() {
		rounds = short
	}
	for seed := first; seed < first+uint64(rounds); seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { run(t, rand.New(rand.NewPCG(seed, 2))) }) {
			return
		}
	}
}

// machine makes backups of a copy of a database.
type machine struct {
	d    *db.DB
	made map[string]map[string]string // what the database contained, by the ID of the backup
}

func newMachine(t *testing.T, repo *backup.Repository, id string) *machine {
	mem := vfs.NewMem()
	restore(t, repo, id, "db", mem)
	return &machine{open(t, "db", smallOptions(mem)), map[string]map[string]string{}}
}

// errorless fails unless an actor that lives had no error.
func (a *actor) errorless(t *testing.T, err error) {
	if !a.dead && err != nil {
		t.Errorf("%+v", err)
	}
}

// Several machines make backups of databases that share tables, while others prune, and some of
// them die. In every order of their operations, each backup that is in the repository is complete, and
// each that was made and not pruned is there. Once all have ended, nothing unneeded remains.
func TestBackupsAndPrunesInAnyOrder(t *testing.T) { inAnyOrder(t, 100, 15, runMachines) }

func runMachines(t *testing.T, rnd *rand.Rand) {
	storage, repo, d := newRepo(t)
	fill(t, d, 0, 300, "base")
	base := create(t, repo, d, &backup.CreateOptions{Flush: true})
	for i := range rnd.IntN(3) {
		fill(t, d, 10*i, 10*i+10, "more")
		base = create(t, repo, d, nil)
	}
	machines := []*machine{newMachine(t, repo, base.ID), newMachine(t, repo, base.ID)}
	var runs []func(a *actor)
	for i, m := range machines {
		seed := rnd.Uint64()
		runs = append(runs, func(a *actor) { m.run(t, a, storage, i, seed) })
	}
	for range 1 + rnd.IntN(2) {
		keep := 1 + rnd.IntN(2)
		runs = append(runs, func(a *actor) {
			r := a.repository(storage)
			for range 3 {
				_, err := r.Prune(background, backup.Policy{KeepLast: keep})
				a.errorless(t, err)
			}
		})
	}
	death := 0.0
	if rnd.IntN(2) == 0 {
		death = 0.02
	}
	interleave(rnd, death, runs...)

	verifyClean(t, repo)
	all := list(t, repo)
	newest := base.ID
	for _, m := range machines {
		for id := range m.made {
			newest = max(newest, id)
		}
	}
	ids := []string{}
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	// A backup whose machine died after its last write is there as well, and may be newer.
	require.GreaterOrEqual(t, slices.Max(ids), newest, "every policy keeps the newest backup")
	for _, m := range machines {
		for id, want := range m.made {
			if slices.Contains(ids, id) {
				require.Equal(t, want, restored(t, repo, id))
			}
		}
	}
	requireTidy(t, repo, storage)
}

// run makes three backups.
func (m *machine) run(t *testing.T, a *actor, storage backup.Storage, n int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	r := a.repository(storage)
	for i := range 3 {
		at := rnd.IntN(300)
		if err := m.d.Put(fmt.Appendf(nil, "key%06d", at), fmt.Appendf(nil, "machine %d, %d", n, i), db.NoSync); err != nil {
			t.Error(err)
		}
		want, err := entries(m.d)
		a.errorless(t, err)
		info, err := r.Create(background, m.d, &backup.CreateOptions{Flush: rnd.IntN(2) == 0})
		a.errorless(t, err)
		if info.ID != "" {
			m.made[info.ID] = want
		}
	}
}

// requireTidy prunes when every backup that died counts as abandoned, and looks for garbage.
func requireTidy(t testing.TB, repo *backup.Repository, storage *backuptest.Mem) {
	t.Helper()
	repo.SetNow(func() time.Time { return time.Now().Add(backup.AbandonedAfter + time.Hour) })
	keepLast(t, repo, 1)
	// The backup that remains may need a condemned object, if it began before that was condemned. The
	// next one stores it again.
	mem := vfs.NewMem()
	restore(t, repo, "", "db", mem)
	create(t, repo, open(t, "db", smallOptions(mem)), nil)
	keepLast(t, repo, 1)
	report := verifyClean(t, repo)
	require.Equal(t, 1, report.Backups)
	require.Len(t, storage.Names("objects/"), report.Objects)
	rest := slices.DeleteFunc(storage.Names(""), func(name string) bool {
		return strings.HasPrefix(name, "objects/") || strings.HasPrefix(name, "backups/") || name == "FORMAT"
	})
	require.Empty(t, rest)
}
