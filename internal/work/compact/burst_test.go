package compact

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBurstTriggerIsBelowTheSlowdown(t *testing.T) {
	for _, c := range []struct{ trigger, slowdown, want int }{
		{4, 12, 8}, {1, 12, 2}, {6, 12, 8}, {8, 12, 8}, {12, 12, 12}, {100, 300, 200}, {1, 1, 1}, {2, 3, 2},
	} {
		o := Tuning{L0Trigger: c.trigger, L0SlowdownTrigger: c.slowdown}
		require.Equal(t, c.want, o.burstTrigger(), "%+v", c)
	}
}
