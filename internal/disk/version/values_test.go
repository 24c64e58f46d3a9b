package version

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// valueTable describes a value table with that many bytes of values.
func valueTable(num, bytes uint64) *FileMeta {
	f := file(num, "a", "z", bytes/2)
	f.SetValueBytes(bytes)
	return f
}

func TestVersionsWhoseValuesDoNotAddUpAreRefused(t *testing.T) {
	none := New(base.Bytewise, new(Owner))
	v, err := none.Apply(Change{
		Added: []LevelFile{{ValuesLevel, valueTable(3, 100)}, {0, file(4, "a", "b", 1)}}, Values: []ValueDelta{{3, 3, 100}},
	})
	require.NoError(t, err)
	for name, e := range map[string]Change{
		"less than nothing lives":          {Values: []ValueDelta{{3, 0, -101}}},
		"too much lives":                   {Values: []ValueDelta{{3, 0, math.MaxInt64}}},
		"an ID without a table":            {Values: []ValueDelta{{9, 0, 5}}},
		"the table of an ID is missing":    {Values: []ValueDelta{{9, 8, 5}}},
		"the table of an ID is another":    {Values: []ValueDelta{{3, 4, 5}}},
		"a table in use is removed":        {Deleted: []DeletedFile{{ValuesLevel, 3}}},
		"a table without an ID":            {Added: []LevelFile{{ValuesLevel, valueTable(5, 1)}}},
		"a table that loses its only ID":   {Values: []ValueDelta{{3, 0, -100}}},
		"one number on a level and beside": {Added: []LevelFile{{2, file(3, "a", "b", 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, result.Err(v.Apply(e)), base.ErrCorruption)
			_, err := none.Apply(Change{Added: []LevelFile{{ValuesLevel, valueTable(3, 100)}}, Values: []ValueDelta{{3, 3, 100}}}, e)
			require.ErrorIs(t, err, base.ErrCorruption)
		})
	}
}
