package dump_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/work/dump"
)

// FuzzFile: no file of any kind makes a dump panic or fail; the error is only that of reading.
func FuzzFile(f *testing.F) {
	f.Add(uint8(dump.Table), smallTable(f))
	golden(f, func(path string) {
		if content, err := os.ReadFile(path); err == nil && len(content) < 4<<10 {
			f.Add(uint8(dump.KindOf(path)), content)
		}
	})
	f.Fuzz(func(t *testing.T, kind uint8, content []byte) {
		defer damage.Watch("a dump")()
		o := dump.Options{Kind: dump.Kind(kind%5 + 1), Entries: true}
		items := uint64(0)
		sum, err := dump.File(write(t, "file", content), "db/file", o, func(i *dump.Item) error {
			items++
			if i.Offset < 0 || i.Size < 0 {
				t.Fatalf("%s at %d has %d bytes", i.Kind, i.Offset, i.Size)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, items, sum.Items)
	})
}
