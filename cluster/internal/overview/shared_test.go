package overview

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The wait for a silent node made overviews older, exactly in trouble.
func TestAnOverviewIsKeptForLongerIfItsAnswersTookLong(t *testing.T) {
	for took, kept := range map[time.Duration]time.Duration{
		0: 900 * time.Millisecond, 100 * time.Millisecond: 2 * time.Second, time.Minute: 5 * time.Second,
	} {
		looks, now := uint64(0), time.Now()
		s := Share(func(ctx context.Context) Overview {
			require.NoError(t, ctx.Err(), "others wait for the same overview")
			looks++
			return Overview{MapVersion: looks, Took: took}
		})
		s.now = func() time.Time { return now }
		ended, end := context.WithCancel(t.Context())
		end()
		require.Equal(t, uint64(1), s.Get(ended).MapVersion)
		now = now.Add(kept - 1)
		require.Equal(t, uint64(1), s.Get(t.Context()).MapVersion)
		now = now.Add(1)
		require.Equal(t, uint64(2), s.Get(t.Context()).MapVersion)
	}
}
