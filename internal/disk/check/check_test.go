package check

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/tabletest"
)

func optionsOf(s *tabletest.Store) Options {
	return Options{
		Cache: s.Cache, Comparer: base.Bytewise, Policies: []filter.Policy{filter.NewBloomPolicy(10)},
		Closed: func() bool { return false },
	}
}

func TestSoundTablesHaveNoFaults(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Add(0, 9, "new", 2, 3, 5)
	f := s.Add(1, 4, "old", 1, 2, 3, 4, 5, 6)
	report, err := Tables(t.Context(), s.Version(), optionsOf(s))
	require.NoError(t, err)
	require.Equal(t, 2, report.Tables)
	require.EqualValues(t, 9, report.Entries)
	require.Greater(t, report.Bytes, f.Size)
	require.Zero(t, report.Twins, "the same keys with other sequence numbers are not twins")
	require.Empty(t, report.Faults)
}

func TestDamagedTableIsReportedAndOthersAreChecked(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	bad := s.Add(0, 9, "value", 2, 3)
	s.Add(1, 4, "value", 1, 2, 3)
	s.Flip(bad, 5)
	report, err := Tables(t.Context(), s.Version(), optionsOf(s))
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "level 0, "+bad.Name())
	require.EqualValues(t, 3, report.Entries)
}

func TestTwinsAreCountedAndReportedIfTheyDiffer(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	a := s.Add(0, 7, "one", 1, 2)
	s.Add(1, 7, "one", 1)
	b := s.Add(2, 7, "two", 2)
	report, err := Tables(t.Context(), s.Version(), optionsOf(s))
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Twins)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], a.Name())
	require.Contains(t, report.Faults[0], b.Name())
}

func TestCheckStopsWithItsContextOrTheStore(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Flip(s.Add(1, 7, "value", 1, 2), 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Tables(ctx, s.Version(), optionsOf(s))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, report.Tables)
	o := optionsOf(s)
	o.Closed = func() bool { return true }
	report, err = Tables(t.Context(), s.Version(), o)
	require.ErrorIs(t, err, base.ErrClosed)
	require.Empty(t, report.Faults, "a closed store proves nothing")
}

// Damaged properties were no fault, although backups refuse such a table. Of the footer, the bytes after the two
// handles have no meaning.
func TestEveryFlippedByteOfATableIsAFault(t *testing.T) {
	size := int(tabletest.New(t, filter.NewBloomPolicy(10)).Add(0, 9, "value", 2, 3).Size)
	footer, meaningless := size-48, 0
	for i := range size {
		s := tabletest.New(t, filter.NewBloomPolicy(10))
		s.Flip(s.Add(0, 9, "value", 2, 3), i)
		report, err := Tables(t.Context(), s.Version(), optionsOf(s))
		require.NoError(t, err)
		if len(report.Faults) == 0 && i > footer+4 && i < size-8 {
			meaningless++
			continue
		}
		require.Len(t, report.Faults, 1, "byte %d of %d", i, size)
	}
	require.Less(t, meaningless, 36)
}
