package machine

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// outcome is an entry that stores outcomes of requests until their number.
func outcomes(t *testing.T, index uint64, untils ...int64) *raft.Log {
	var b db.Batch
	for _, until := range untils {
		id := []byte{byte(until)}
		b.Put(layout.AppendOutcomeKey(nil, 3, id), layout.AppendOutcome(nil, until, []byte("reply")))
		b.Put(layout.AppendHint(nil, layout.OutcomeExpiryPrefix, until, 3, id), nil)
	}
	e := layout.Entry{Chain: layout.Chain{Term: 1}, Time: 1}
	data, err := b.AppendBinary(layout.AppendEntryHeader(nil, e))
	require.NoError(t, err)
	return &raft.Log{Index: index, Term: 1, Data: data}
}

// Outcomes are of the state: they move with it, and remain when all keys are deleted.
func TestOutcomesMoveWithTheState(t *testing.T) {
	m := open(t, vfs.NewMem())
	require.Nil(t, m.Apply(outcomes(t, 1, 9, 5, 7)))
	require.Nil(t, m.Apply(deleteAll(2, 1)))
	other := open(t, vfs.NewMem())
	require.NoError(t, install(other, stream(t, m)))
	for _, m := range []*Machine{m, other} {
		require.NoError(t, m.View(func(r kv.Reader) error {
			value, err := r.(*reader).Outcome(3, []byte{5})
			require.NoError(t, err)
			require.Equal(t, layout.AppendOutcome(nil, 5, []byte("reply")), value)
			value, err = r.(*reader).Outcome(4, []byte{5})
			require.Nil(t, value)
			return err
		}))
		for _, c := range []struct {
			now   int64
			limit int
			want  []int64
		}{{4, 10, nil}, {5, 10, []int64{5}}, {9, 10, []int64{5, 7, 9}}, {9, 2, []int64{5, 7}}, {1<<63 - 1, 10, []int64{5, 7, 9}}, {-1, 10, nil}} {
			var got []int64
			find := func(slotNum uint16, id []byte, until int64) bool {
				require.Equal(t, uint16(3), slotNum)
				require.Equal(t, []byte{byte(until)}, id)
				got = append(got, until)
				return true
			}
			require.NoError(t, m.HintsBefore(layout.OutcomeExpiryPrefix, c.now, c.limit, find))
			require.Equal(t, c.want, got)
		}
	}
}
