package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// leaderOf waits until a node leads group 0 and can evaluate commands, and returns it.
func (f *fleet) leaderOf() (leader *hosted) {
	f.t.Helper()
	f.eventually(func() error {
		for _, n := range f.nodes {
			if h, err := n.hostedGroup(0); err == nil && h.replica.Leading() {
				leader = h
				return nil
			}
		}
		return errors.New("nobody leads group 0")
	})
	return leader
}

// transfer makes a server the leader of group 0.
func (f *fleet) transfer(to *hosted) {
	f.t.Helper()
	f.eventually(func() error {
		if now := f.leaderOf(); now != to {
			_ = now.log.TransferLeadership(f.ctx, to.server) // another one may win
		}
		if f.leaderOf() != to {
			return errors.New("another server leads")
		}
		return nil
	})
}

// The bug, with real groups: a leader evaluates SET XX and finds no key, another one acknowledges a write of it, and
// the first leads again before it replies.
func TestALeaderThatWasDeposedDoesNotConfirmWhatItEvaluatedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		first := f.leaderOf()
		var second *hosted
		for _, n := range f.nodes {
			if h, err := n.hostedGroup(0); err == nil && h != first {
				second = h
			}
		}
		var reply kv.Pending
		f.eventually(func() (err error) {
			f.transfer(first)
			reply, err = first.replica.Update(f.ctx, func(tx kv.Tx) error {
				_, found, err := tx.Get([]byte("k"))
				require.False(t, found)
				return err
			})
			return err
		})
		f.transfer(second)
		f.write("k", "of the successor")
		f.transfer(first)
		f.eventually(func() error {
			err := reply.Wait(f.ctx)
			require.Error(t, err)
			if !errors.Is(err, kv.ErrDeposed) {
				f.transfer(first)
				return err
			}
			return nil
		})
		f.has("k", "of the successor")
	})
}

// What was stored with the ID of a request is on all replicas, so a successor repeats nothing.
func TestASuccessorKnowsTheOutcomesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		key, id := []byte("k"), []byte("id")
		outcome := func(tx kv.Tx) (string, error) {
			got, err := tx.Outcome(key, id)
			return string(got), err
		}
		do := func(evaluate func(tx kv.Tx) error) {
			f.eventually(func() error {
				p, err := f.leaderOf().replica.Update(f.ctx, evaluate)
				if err == nil {
					err = p.Wait(f.ctx)
				}
				return err
			})
		}
		do(func(tx kv.Tx) error {
			tx.Put(key, kv.Value{Data: []byte("v")})
			tx.SetOutcome(key, id, []byte("done"), tx.Now()+time.Hour.Milliseconds())
			return nil
		})
		f.has("k", "v")
		var others []*hosted
		for _, n := range f.nodes {
			if h, err := n.hostedGroup(0); err == nil && h != f.leaderOf() {
				others = append(others, h)
			}
		}
		for _, next := range others {
			f.transfer(next)
			do(func(tx kv.Tx) error {
				got, err := outcome(tx)
				require.Equal(t, "done", got)
				return err
			})
		}
		do(func(tx kv.Tx) error { tx.DeleteAll(); return nil })
		do(func(tx kv.Tx) error {
			got, err := outcome(tx)
			require.Equal(t, "done", got)
			return err
		})
	})
}
