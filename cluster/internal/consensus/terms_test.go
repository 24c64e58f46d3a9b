package consensus

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// A leader was deposed, and leads again: that proves nothing about its earlier term.
func TestALeaderConfirmsOnlyTheTermInWhichItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSteady(t, 3, nil)
		a := c.leader()
		c.proposeAt(a, "old")
		first := a.Leadership().Term
		require.NoError(t, a.Confirm(within(t, patience), first))
		c.transfer(c.followers()[0])
		var not *kv.NotLeaderError
		require.ErrorAs(t, a.Confirm(within(t, patience), first), &not)
		c.propose("of the successor")
		c.asLeader(a, func() error {
			now := a.Leadership().Term
			require.Greater(t, now, first)
			return a.Confirm(within(t, patience), now)
		})
		c.asLeader(a, func() error {
			err := a.Confirm(within(t, patience), first)
			require.Error(t, err)
			if errors.Is(err, kv.ErrDeposed) {
				return nil
			}
			return err // another node was elected meanwhile
		})
	})
}
