package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

func TestCommandsSeeWritesThatAreOnTheirWay(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.log.set(func() { g.log.held = true })
	var waits []kv.Pending
	for i := 1; i <= 9; i++ {
		p, err := g.append("a", fmt.Sprint(i))
		require.NoError(t, err)
		waits = append(waits, p)
	}
	got, err := g.tryGet("a", true)
	require.NoError(t, err)
	require.Equal(t, "0", got, "others see what is committed")
	g.log.commit(4)
	require.NoError(t, waits[3].Wait(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, waits[4].Wait(ctx), kv.ErrUnknown)
	require.Equal(t, "01234", g.get("a"))
	g.log.commit(5)
	require.NoError(t, waits[8].Wait(t.Context()))
	require.Equal(t, "0123456789", g.get("a"))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Replica.mu.Lock()
	defer g.Replica.mu.Unlock()
	require.Empty(t, g.lead.overlay.writes)
	require.Zero(t, g.lead.inFlight)
	require.Zero(t, g.lead.bytes)
}

// A proposal that was refused is as if it had not been evaluated.
func TestARefusedProposalLeavesNoTrace(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.log.set(func() { g.log.refused = kv.ErrBusy })
	_, err := g.append("a", "lost")
	require.ErrorIs(t, err, kv.ErrBusy)
	g.log.set(func() { g.log.refused = nil })
	g.mustAppend("a", "1")
	require.Equal(t, "01", g.get("a"))
}

// What was evaluated on entries that are lost must not be built upon.
func TestALostEntryEndsTheLeadership(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.log.set(func() { g.log.held = true })
	first, err := g.append("a", "1")
	require.NoError(t, err)
	second, err := g.append("a", "2")
	require.NoError(t, err)
	g.log.set(func() { g.log.held = false })
	g.log.lead(true, kv.ErrUnknown) // elected again
	require.ErrorIs(t, first.Wait(t.Context()), kv.ErrUnknown)
	require.ErrorIs(t, second.Wait(t.Context()), kv.ErrUnknown)
	g.mustAppend("a", "3")
	require.Equal(t, "03", g.get("a"))
}

// One entry is refused after all, as while a leadership is transferred, and the next one is not.
func TestNothingThatWasEvaluatedOnALostEntryCounts(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.log.set(func() { g.log.held = true })
	first, err := g.append("a", "1")
	require.NoError(t, err)
	second, err := g.append("a", "2")
	require.NoError(t, err)
	g.log.set(func() {
		g.log.held = false
		lost := g.log.waiting[0]
		lost.err = &kv.NotLeaderError{}
		close(lost.done)
		g.log.waiting = g.log.waiting[1:]
		g.log.commitLocked(1)
	})
	var not *kv.NotLeaderError
	require.ErrorAs(t, first.Wait(t.Context()), &not)
	require.ErrorAs(t, second.Wait(t.Context()), &not)
	g.mustAppend("a", "3")
	require.Equal(t, "03", g.get("a"))
}

// An entry that the log has in a later term was evaluated on a state that others may have changed.
func TestAnEntryOfAnOldTermIsSkipped(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.log.set(func() { g.log.held = true })
	p, err := g.append("a", "1")
	require.NoError(t, err)
	g.log.set(func() {
		g.log.waiting[0].term++
		g.log.commitLocked(1)
	})
	var not *kv.NotLeaderError
	require.ErrorAs(t, p.Wait(t.Context()), &not)
	g.log.set(func() { g.log.held = false })
	require.Equal(t, "0", g.get("a"))
}

func TestANodeThatDoesNotLeadNamesTheLeader(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "1")
	g.log.lead(false, kv.ErrUnknown)
	for name, call := range map[string]func() error{
		"Update": func() error { _, err := g.append("a", "x"); return err },
		"View":   func() error { _, err := g.tryGet("a", false); return err },
		"Watch":  func() error { _, err := g.Watch(t.Context(), [][]byte{[]byte("a")}); return err },
	} {
		var not *kv.NotLeaderError
		require.ErrorAs(t, call(), &not, name)
		require.Equal(t, kv.NotLeaderError{Group: 3, Leader: "node2"}, *not, name)
	}
	got, err := g.tryGet("a", true)
	require.NoError(t, err)
	require.Equal(t, "1", got)
}

// No node confirms that this node leads: a read has no answer, whether it waits for writes or not.
func TestReadsNeedAConfirmedLeader(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "1")
	g.log.set(func() { g.log.verified = kv.ErrNoQuorum })
	_, err := g.tryGet("a", false)
	require.ErrorIs(t, err, kv.ErrNoQuorum)
	p, err := g.Update(t.Context(), func(tx kv.Tx) error { _, err := read(tx, "a"); return err })
	require.NoError(t, err)
	require.ErrorIs(t, p.Wait(t.Context()), kv.ErrNoQuorum)
}

// A transaction without writes has read what is on its way: it waits for that.
func TestAReadingTransactionWaitsForWhatItRead(t *testing.T) {
	g := newRig(t)
	g.log.set(func() {})
	g.mustPut("a", "0")
	g.log.set(func() { g.log.held = true })
	_, err := g.append("a", "1")
	require.NoError(t, err)
	var got string
	p, err := g.Update(t.Context(), func(tx kv.Tx) (err error) { got, err = read(tx, "a"); return err })
	require.NoError(t, err)
	require.Equal(t, "01", got)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Wait(ctx), kv.ErrNoQuorum)
	g.log.commit(1)
	require.NoError(t, p.Wait(t.Context()))
}

// The disk was full, and the client got an error of the file system.
func TestAReadIsRedirectedIfTheStateFailsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.mustPut("k", "v")
		g.log.set(func() { g.log.index++ }) // which is never applied
		read := make(chan error, 1)
		go func() { _, err := g.tryGet("k", false); read <- err }()
		synctest.Wait()
		require.Empty(t, read)
		g.state.Damaged(errDamage)
		err := <-read
		var not *kv.NotLeaderError
		require.ErrorAs(t, err, &not)
		require.NotErrorIs(t, err, errDamage)
	})
}

// errDamage is an error of the disk that fails the state.
var errDamage = fmt.Errorf("the disk: %w", db.ErrCorruption)

func TestErrorsOfCommandsAndOfTheStateReplicateNothing(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "1")
	broken := errors.New("broken")
	before, _ := g.state.Applied()
	_, err := g.Update(t.Context(), func(tx kv.Tx) error {
		tx.Put([]byte("a"), kv.Value{Data: []byte("2")})
		return broken
	})
	require.ErrorIs(t, err, broken)
	after, _ := g.state.Applied()
	require.Equal(t, before, after)
	require.Equal(t, "1", g.get("a"))
	g.state.Damaged(errDamage)
	_, err = g.tryGet("a", false)
	var not *kv.NotLeaderError
	require.ErrorAs(t, err, &not)
}

// A read of damaged bytes fails the state. The client is to try another node, and learns nothing of files.
func TestACommandThatFindsDamageWasNotDone(t *testing.T) {
	for name, command := range map[string]func(g *rig, find func() error) error{
		"a read": func(g *rig, find func() error) error {
			return g.View(t.Context(), false, func(kv.Reader) error { return find() })
		},
		"a write": func(g *rig, find func() error) error {
			_, err := g.Update(t.Context(), func(kv.Tx) error { return find() })
			return err
		},
		"a stale read": func(g *rig, find func() error) error {
			g.log.lead(false, nil)
			return g.View(t.Context(), true, func(kv.Reader) error { return find() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.mustPut("a", "1")
			err := command(g, func() error {
				g.state.Damaged(errDamage)
				return errDamage
			})
			var not *kv.NotLeaderError
			require.ErrorAs(t, err, &not)
			require.NotErrorIs(t, err, errDamage)
		})
	}
}

func TestTooManyWritesAreRefused(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.o.MaxInFlight = 3
	g.log.set(func() { g.log.held = true })
	for range 3 {
		g.put("a", "x", 0)
	}
	_, err := g.append("a", "y")
	require.ErrorIs(t, err, kv.ErrBusy)
	g.log.commit(3)
	g.log.set(func() { g.log.held = false })
	require.Eventually(t, func() bool {
		p, err := g.append("a", "y")
		return err == nil && p.Wait(t.Context()) == nil
	}, time.Minute, time.Millisecond)
}

// A client whose map of the cluster is old asks a node that led before its disk became full. An error of any other kind
// than a redirection would not make it look for the new leader.
func TestAFullDiskRefusesWritesOfGroupsThatThisNodeLeads(t *testing.T) {
	g := newRig(t)
	g.mustPut("a", "0")
	g.o.Full = func() bool { return true }
	_, err := g.append("a", "1")
	require.ErrorIs(t, err, kv.ErrNoSpace)
	require.Equal(t, "0", g.get("a"))
	g.log.lead(false, kv.ErrUnknown)
	var not *kv.NotLeaderError
	_, err = g.append("a", "1")
	require.ErrorAs(t, err, &not)
	_, err = g.MetaCAS(t.Context(), "m", nil, []byte("1"))
	require.ErrorAs(t, err, &not)
}

// FLUSHALL made the watches of all keys dirty, also of absent ones, and so did the sweep that removed an expired key.
func TestWatchesNoticeChanges(t *testing.T) {
	flush := func(g *rig) {
		p, err := g.Update(g.t.Context(), func(tx kv.Tx) error { tx.DeleteAll(); return nil })
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
	}
	const absent = "absent expired"
	for name, c := range map[string]struct {
		keys   string
		change func(g *rig)
		dirty  bool
	}{
		"nothing":          {"a", func(*rig) {}, false},
		"another key":      {"a", func(g *rig) { g.mustPut("other", "1") }, false},
		"the key":          {"a", func(g *rig) { g.mustPut("a", "0") }, true},
		"a write underway": {"a", func(g *rig) { g.log.set(func() { g.log.held = true }); g.put("a", "1", 0) }, true},
		"all":              {"a", flush, true},
		"the time":         {"a", func(g *rig) { g.at(9000) }, true},
		"a new term": {"a", func(g *rig) {
			g.log.lead(true, kv.ErrUnknown)
			g.mustPut("other", "1")
		}, true},
		"a flush":                  {absent, flush, false},
		"a sweep":                  {absent, func(g *rig) { _, err := g.sweep(layout.ExpiryPrefix, (*tx).removeKey); require.NoError(t, err) }, false},
		"a write":                  {absent, func(g *rig) { g.mustPut("expired", "1") }, true},
		"a write before a flush":   {absent, func(g *rig) { g.mustPut("absent", "1"); flush(g) }, true},
		"a flush and then a write": {absent, func(g *rig) { flush(g); g.mustPut("absent", "1") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			require.NoError(t, g.put("a", "0", 9000).Wait(t.Context()))
			require.NoError(t, g.put("expired", "0", 5000).Wait(t.Context()))
			g.at(6000)
			w, err := g.Watch(t.Context(), bytes.Fields([]byte(c.keys)))
			require.NoError(t, err)
			c.change(g)
			var dirty bool
			_, err = g.Update(t.Context(), func(kv.Tx) error { dirty = w.Dirty(); return nil })
			require.NoError(t, err)
			require.Equal(t, c.dirty, dirty)
			w.Close()
			g.Replica.mu.Lock()
			defer g.Replica.mu.Unlock()
			require.Empty(t, g.lead.watches)
		})
	}
}

// The bug: a transaction read a key without a write that was on its way when it was watched, and was committed.
func TestAWatchWaitsForWritesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.mustPut("a", "0")
		g.log.set(func() { g.log.held = true })
		g.put("a", "1", 0)
		begun := make(chan kv.Watch, 1)
		go func() {
			w, err := g.Watch(t.Context(), [][]byte{[]byte("a")})
			require.NoError(t, err)
			begun <- w
		}()
		synctest.Wait()
		require.Empty(t, begun)
		g.log.commit(1)
		w := <-begun
		require.Equal(t, "1", g.get("a"))
		_, err := g.Update(t.Context(), func(kv.Tx) error { require.False(t, w.Dirty()); return nil })
		require.NoError(t, err)
		w.Close()
	})
}

// The key was read, and deleted by another client, without the watch, for which it had never been there.
func TestAKeyThatAWatchSawAsExpiredDoesNotReturnWhenTheClockIsSetBack(t *testing.T) {
	g := newRig(t)
	require.NoError(t, g.put("a", "0", 5000).Wait(t.Context()))
	g.at(6000)
	w, err := g.Watch(t.Context(), [][]byte{[]byte("a")})
	require.NoError(t, err)
	defer w.Close()
	g.at(4000)
	require.Equal(t, "-", g.get("a"))
}

// The clock of the log decides. A leader whose clock is ahead makes its time that of the log before it says that
// a key has expired; one whose clock is late hides it all the same.
func TestTheLogDecidesWhatHasExpired(t *testing.T) {
	g := newRig(t)
	require.NoError(t, g.put("a", "1", 5000).Wait(t.Context()))
	g.at(4999)
	require.Equal(t, "1", g.get("a"))
	require.Less(t, g.state.Clock(), int64(4999), "a read writes nothing")
	stale, err := g.tryGet("a", true)
	require.NoError(t, err)
	require.Equal(t, "1", stale)
	g.at(5000)
	require.Equal(t, "-", g.get("a"))
	require.Equal(t, int64(5000), g.state.Clock())
	g.at(1)
	require.Equal(t, "-", g.get("a"))
	g.mustAppend("a", "2")
	require.Equal(t, "2", g.get("a"), "the old value is gone")
	g.log.lead(true, kv.ErrUnknown)
	require.Equal(t, "2", g.get("a"))
	require.Equal(t, int64(5000), g.state.Clock(), "the time of the log never goes back")
}

func TestExpiredKeysAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		for i := range 2500 {
			g.put(fmt.Sprint("key", i), "1", 5000)
		}
		require.NoError(t, g.put("key7", "later", 9000).Wait(t.Context()))
		g.mustPut("key8", "for ever")
		g.mustPut("other", "1")
		g.at(5000)
		time.Sleep(time.Second)
		require.Equal(t, 4, g.stored(layout.KeyPrefix, layout.ExpiryPrefix), "three keys, and a hint")
		require.Equal(t, "later", g.get("key7"))
		require.Equal(t, "for ever", g.get("key8"))
		g.at(9000)
		time.Sleep(time.Second)
		require.Equal(t, 2, g.stored(layout.KeyPrefix, layout.ExpiryPrefix))
	})
}

func TestMetaIsComparedAndSwapped(t *testing.T) {
	g := newRig(t)
	for _, c := range []struct {
		old, new string
		swapped  bool
	}{{"", "1", true}, {"", "2", false}, {"2", "3", false}, {"1", "2", true}} {
		var old []byte
		if c.old != "" {
			old = []byte(c.old)
		}
		swapped, err := g.MetaCAS(t.Context(), "map", old, []byte(c.new))
		require.NoError(t, err)
		require.Equal(t, c.swapped, swapped)
	}
	_, err := g.Update(t.Context(), func(tx kv.Tx) error { tx.DeleteAll(); return nil })
	require.NoError(t, err)
	require.Equal(t, "-", g.get("map"))
	got, err := g.MetaGet("map")
	require.NoError(t, err)
	require.Equal(t, "2", string(got), "clients cannot delete it")
}

// Random transactions, with entries on their way, agree with a map.
func TestTransactionsAgreeWithAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := newRig(t)
	g.mustPut("first", "1")
	g.log.set(func() { g.log.held = true })
	model := map[string]string{"first": "1"}
	var last kv.Pending
	for range 2000 {
		var err error
		last, err = g.Update(t.Context(), func(tx kv.Tx) error {
			for range 1 + rnd.IntN(4) {
				key := fmt.Sprintf("{t}%02d", rnd.IntN(30))
				switch rnd.IntN(8) {
				case 0:
					tx.Delete([]byte(key))
					delete(model, key)
				case 1:
					if rnd.IntN(20) == 0 {
						tx.DeleteAll()
						clear(model)
					}
				default:
					value := fmt.Sprint(rnd.Uint32())
					tx.Put([]byte(key), kv.Value{Data: []byte(value)})
					model[key] = value
				}
			}
			return compareScan(tx, rnd, model)
		})
		require.NoError(t, err)
		if rnd.IntN(3) == 0 {
			g.log.set(func() { g.log.commitLocked(rnd.IntN(len(g.log.waiting) + 1)) })
		}
	}
	g.log.set(func() { g.log.commitLocked(len(g.log.waiting)); g.log.held = false })
	require.NoError(t, last.Wait(t.Context()))
	require.NoError(t, g.View(t.Context(), false, func(r kv.Reader) error { return compareScan(r, rnd, model) }))
}

// compareScan compares a random range with the model.
func compareScan(r kv.Reader, rnd *rand.Rand, model map[string]string) error {
	start, limit := fmt.Sprintf("{t}%02d", rnd.IntN(30)), fmt.Sprintf("{t}%02d", rnd.IntN(30))
	reverse, most := rnd.IntN(2) == 0, 1+rnd.IntN(30)
	var want []string
	for i := range 30 {
		key := fmt.Sprintf("{t}%02d", i)
		if reverse {
			key = fmt.Sprintf("{t}%02d", 29-i)
		}
		if value, ok := model[key]; ok && key >= start && key < limit && len(want) < most {
			want = append(want, key+"="+value)
		}
	}
	var got []string
	err := r.Scan(slot.Of([]byte("{t}")), []byte(start), []byte(limit), reverse, func(key []byte, v kv.Value) bool {
		got = append(got, string(key)+"="+string(v.Data))
		return len(got) < most
	})
	if a, b := strings.Join(got, " "), strings.Join(want, " "); err == nil && a != b {
		err = fmt.Errorf("[%s,%s) reverse %v: got %s, want %s", start, limit, reverse, a, b)
	}
	return err
}

// Many goroutines append; each sees all before it, through changes of the leadership.
func TestConcurrentUpdates(t *testing.T) {
	g := newRig(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				p, err := g.append("a", "x")
				if err != nil {
					continue
				}
				_ = p.Wait(t.Context())
			}
		})
	}
	for range 20 {
		g.log.lead(true, kv.ErrUnknown)
		time.Sleep(time.Millisecond) // the point is to be in the middle of the others
	}
	group.Wait()
	g.mustPut("b", "1")
	g.Replica.mu.Lock()
	defer g.Replica.mu.Unlock()
	require.Empty(t, g.lead.overlay.writes)
}
