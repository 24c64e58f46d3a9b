package share

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func slotsOf(limit, stores int) (*slotPool, []*Slots) {
	p := &slotPool{limit: limit}
	var all []*Slots
	for range stores {
		all = append(all, p.join())
	}
	return p, all
}

func TestStoresTakeTurns(t *testing.T) {
	p, s := slotsOf(1, 3)
	require.True(t, s[0].Want(Ordinary))
	s[0].Use()
	for _, waits := range s {
		require.False(t, waits.Want(Ordinary))
		require.False(t, waits.Want(Ordinary), "a store waits for one slot at a time")
	}
	for _, next := range []int{0, 1, 2, 0, 1, 2} {
		user := s[(next+2)%3]
		if p.metrics().Waits == 0 {
			user = s[0]
		}
		user.Free()
		require.True(t, signalled(s[next].Signal()))
		require.Equal(t, 1, p.used)
		require.True(t, s[next].Want(Ordinary))
		s[next].Use()
		require.False(t, s[next].Want(Ordinary))
	}
	require.EqualValues(t, 6, p.metrics().Waits)
	require.Equal(t, 3, p.metrics().Waiting)
}

func TestUrgentWorkComesFirstButNotForEver(t *testing.T) {
	p, s := slotsOf(1, 4)
	ordinary, level0, stalled, user := s[0], s[1], s[2], s[3]
	require.True(t, user.Want(Ordinary))
	user.Use()
	ordinary.Want(Ordinary)
	level0.Want(Ordinary)
	level0.Want(Level0) // it has become more urgent
	order := []*Slots{}
	for range 6 {
		stalled.Want(Stalled)
		user.Free()
		for _, next := range s {
			if signalled(next.Signal()) {
				next.Use()
				order = append(order, next)
				user = next
			}
		}
	}
	require.Equal(t, []*Slots{stalled, stalled, stalled, ordinary, stalled, stalled}, order)
	require.Equal(t, 1, p.used)
}

func TestAReservedSlotIsGivenUp(t *testing.T) {
	p, s := slotsOf(1, 3)
	require.True(t, s[0].Want(Ordinary))
	s[1].Want(Ordinary)
	s[2].Want(Ordinary)
	s[1].Forgo() // it does not wait any more
	s[0].Forgo()
	s[0].Forgo()
	require.False(t, signalled(s[1].Signal()))
	require.True(t, signalled(s[2].Signal()))
	s[2].Use()
	s[2].Free()
	s[2].Free()
	require.Zero(t, p.used)
}

func TestAStoreThatLeavesReturnsItsSlots(t *testing.T) {
	p, s := slotsOf(2, 3)
	gone, other, third := s[0], s[1], s[2]
	for range 3 {
		gone.Use() // the third is one more than there are
	}
	require.Equal(t, 3, p.used)
	require.True(t, third.Want(Ordinary), "another store is not left without a slot")
	require.False(t, other.Want(Stalled))
	gone.Want(Ordinary)
	gone.leave()
	require.True(t, signalled(other.Signal()))
	require.Equal(t, 2, p.used)
	gone.Use()
	gone.Free()
	require.False(t, gone.Want(Stalled))
	require.Equal(t, 2, p.used)
}

func TestNoStoreHasAllSlotsOfSeveral(t *testing.T) {
	p, s := slotsOf(2, 2)
	greedy, other := s[0], s[1]
	require.True(t, greedy.Want(Stalled))
	greedy.Use()
	require.False(t, greedy.Want(Stalled))
	require.True(t, other.Want(Ordinary))
	other.Forgo()
	require.False(t, signalled(greedy.Signal()))
	other.leave()
	require.True(t, signalled(greedy.Signal()), "it is the only one now")
	require.Equal(t, 2, p.used)
}

// A store that was alone has all slots, and its compactions hang. Stores that are opened later share one more slot
// until it gives one back or leaves.
func TestAStoreThatWasAloneDoesNotKeepAllSlots(t *testing.T) {
	p, s := slotsOf(2, 1)
	hung := s[0]
	for range 2 {
		require.True(t, hung.Want(Ordinary))
		hung.Use()
	}
	a, b := p.join(), p.join()
	require.True(t, a.Want(Ordinary))
	a.Use()
	require.False(t, b.Want(Ordinary))
	require.False(t, hung.Want(Stalled))
	a.Free()
	require.True(t, signalled(b.Signal()))
	require.True(t, b.Want(Ordinary))
	b.Use()
	hung.Free()
	require.False(t, a.Want(Ordinary), "both slots are used, by two stores")
	hung.leave()
	require.True(t, signalled(a.Signal()))
	a.Use()
	require.Equal(t, 2, p.used)
	a.leave()
	b.leave()
	require.Zero(t, p.used)
}

func TestSlotsUnderLoad(t *testing.T) {
	p, s := slotsOf(3, 10)
	var working, most atomic.Int32
	var wg sync.WaitGroup
	for _, slots := range s {
		wg.Go(func() {
			for i := range 200 {
				for !slots.Want(Urgency(i % 3)) {
					<-slots.Signal()
				}
				if i%10 == 0 {
					slots.Forgo()
					continue
				}
				slots.Use()
				most.Store(max(most.Load(), working.Add(1)))
				working.Add(-1)
				slots.Free()
			}
			slots.leave()
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Zero(t, p.used)
	require.Empty(t, p.waiting)
}
