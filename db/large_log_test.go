package db

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/vfs/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Bug: a log whose first write was a large value began without a preamble, so that the loss of the
// log before it was not noticed; and neither the next preamble nor CLOSED counted that write.
func TestALostLogIsCorruptionBesideLargeWrites(t *testing.T) {
	large := make([]byte, largeWrite)
	for name, writes := range map[string][3][]byte{
		"the log after it begins with a large write": {[]byte("v"), []byte("v"), large},
		"it ends with a large write":                 {[]byte("v"), large, []byte("v")},
		"the last log holds only a large write":      {[]byte("v"), large, large},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				mem := vfs.NewMem()
				d := mustOpen(t, &Options{Memtables: MemtableOptions{Size: 8 << 20, MaxWaiting: 4},
					FS: wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
						if op.Kind == wrap.OpCreate && isTable(op.Name) {
							return &wrap.Fault{}
						}
						return nil
					})})
				var logs []string
				for i, value := range writes {
					logs = append(logs, base.FileName(base.FileLog, d.state.Load().mem.logNum))
					require.NoError(t, d.Put(testKey(i), value, Sync))
					require.Equal(t, d.log.lastSeq, d.log.logged)
					if i < 2 {
						require.NoError(t, d.commit.run(d, &commitRequest{alone: func(d *DB) error {
							next, err := d.takeSuccessor(0)
							if err == nil {
								err = d.log.w.Close()
							}
							if err == nil {
								d.switchLog(next, false)
							}
							return err
						}}))
					}
				}
				if closed {
					require.NoError(t, d.Close())
				}
				im := imageOf(t, mem)
				if !closed {
					require.NoError(t, d.Close())
				}
				for _, damaged := range [][]byte{nil, {}} {
					_, err := Open("db", &Options{FS: fsOf(t, im.With(logs[1], damaged))})
					require.ErrorIs(t, err, ErrCorruption)
				}
				again := openTest(t, &Options{FS: fsOf(t, im)})
				for i, value := range writes {
					requireValue(t, again, testKey(i), value)
				}
			})
		}
	}
}
