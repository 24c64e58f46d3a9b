package interop

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// followChanges applies the changes after a position to a copy, and returns the new position.
func followChanges(d *db.DB, at uint64, content map[string]string) (uint64, error) {
	for c, err := range d.Changes(context.Background(), at, nil) {
		if err != nil {
			return at, err
		}
		if c.First != at+1 {
			return at, fmt.Errorf("numbers %d to %d at position %d", c.First, c.Last, at)
		}
		for e, err := range c.Entries() {
			switch {
			case err != nil:
				return at, err
			case e.Kind == db.EntryPut:
				content[string(e.Key)] = string(e.Value)
			case e.Kind == db.EntryDeleteRange:
				maps.DeleteFunc(content, func(key, _ string) bool { return key >= string(e.Key) && key < string(e.Value) })
			default:
				delete(content, string(e.Key))
			}
		}
		at = c.Last
	}
	return at, nil
}

func contentOf(t *testing.T, d *db.DB) map[string]string {
	t.Helper()
	content := map[string]string{}
	all, failed := d.All(nil)
	for k, v := range all {
		content[string(k)] = string(v)
	}
	require.NoError(t, failed())
	return content
}

// A copy follows a database that another engine writes, as far as its logs reach. Where they do not, it learns that.
func TestChangesOfADatabaseThatAnotherEngineWrites(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		dir := filepath.Join(t.TempDir(), "db")
		o := Options{WriteBufferSize: 64 << 10, ReuseLogs: reuse}
		d, err := other.Open(dir, o)
		require.NoError(t, err)
		f := (*db.DB)(nil)
		content, at, gone := map[string]string{}, uint64(0), 0
		for i := range 3000 {
			ops := []Op{Put(fmt.Appendf(nil, "key%05d", i*7%1000), make([]byte, 100))}
			if i%3 == 0 {
				ops = append(ops, Delete(fmt.Appendf(nil, "key%05d", i*5%1000)))
			}
			require.NoError(t, d.Write(ops, i%100 == 0))
			if f == nil {
				f, err = db.OpenFollower(dir, nil)
				require.NoError(t, err)
				defer f.Close()
			}
			if i%10 != 0 || i > 1000 && i%900 != 0 { // it is fast, and then slow
				continue
			}
			if at, err = followChanges(f, at, content); err != nil {
				var behind *db.ChangesGoneError
				require.ErrorAs(t, err, &behind)
				require.Greater(t, behind.Oldest, at)
				gone++
				require.NoError(t, f.Refresh(t.Context()))
				content = contentOf(t, f)
				_, at, err = f.ChangePositions()
				require.NoError(t, err)
				continue
			}
			require.Equal(t, contentOf(t, f), content, i)
		}
		t.Logf("the reader was refused %d times", gone)
		require.Positive(t, gone)
		require.NoError(t, d.Close())
	})
}

// Another engine writes between two openings that keep changes. Positions from before lead to the right content, or are
// refused.
func TestAnotherEngineWritesBetweenChanges(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		for name, writes := range map[string]int{"nothing": 0, "one": 1, "a log": 20, "many logs": 2000} {
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "db")
				keep := &db.Options{Changes: db.ChangeRetention{Bytes: 1 << 30}}
				for _, flush := range []bool{false, true} {
					d, err := db.Open(dir, keep)
					require.NoError(t, err)
					content := contentOf(t, d)
					_, at, err := d.ChangePositions()
					require.NoError(t, err)
					for i := range 50 {
						require.NoError(t, d.Put(fmt.Appendf(nil, "key%05d", i), fmt.Appendf(nil, "%v", flush), nil))
					}
					require.NoError(t, d.DeleteRange(t.Context(), []byte("key00010"), []byte("key00020"), nil))
					if flush {
						require.NoError(t, d.Flush())
					}
					require.NoError(t, d.Close())
					o, err := other.Open(dir, Options{WriteBufferSize: 64 << 10, ReuseLogs: reuse})
					require.NoError(t, err)
					for i := range writes {
						require.NoError(t, o.Write([]Op{Put(fmt.Appendf(nil, "key%05d", i), make([]byte, 100))}, false))
					}
					require.NoError(t, o.Close())
					d, err = db.Open(dir, keep)
					require.NoError(t, err)
					_, err = followChanges(d, at, content)
					if err != nil {
						require.ErrorIs(t, err, db.ErrChangesGone)
					} else {
						require.Equal(t, contentOf(t, d), content)
					}
					if writes == 2000 {
						require.Error(t, err)
					}
					if writes == 0 && flush {
						require.NoError(t, err)
					}
					require.NoError(t, d.Close())
				}
			})
		}
	})
}
