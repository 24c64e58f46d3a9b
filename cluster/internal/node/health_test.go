package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A leader that was elected a moment ago cannot answer yet. A node that called itself ready then showed a group without
// a leader in its overview.
func TestANodeIsReadyOnceItLeadsWhatItWasElectedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 32
		f := newFleet(t, groups)
		require.NoError(t, Create(f.options("1")))
		f.start("1")
		n := f.nodes["1"]
		h := n.Health()
		for !h.Ready {
			require.NoError(t, f.ctx.Err())
			time.Sleep(time.Millisecond)
			h = n.Health()
		}
		require.Equal(t, groups, h.Groups)
		require.Equal(t, groups, h.Leads, "one node has nobody to redirect clients to")
		require.Empty(t, h.Problems)
	})
}
