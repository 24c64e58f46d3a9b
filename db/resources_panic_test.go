package db_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// A file system that panics, at any operation of Open or Close, leaves nothing in use. The bug: a
// panic before the directory was locked kept the part of the store for ever.
func TestAPanicLeavesNothingInUse(t *testing.T) {
	r := smallResources(t, 1)
	for n, ended := int64(1), false; !ended; n++ {
		for _, closing := range []bool{false, true} {
			o := sharing(r, vfs.NewMem())
			o.FS = vfs.NewMem() // panics are in no order
			d := mustOpen(t, o)
			fill(t, d, 0, 100)
			require.NoError(t, d.Close())
			var armed atomic.Bool
			var at atomic.Int64
			o.FS = wrap.NewFaulty(o.FS, func(wrap.Op) *wrap.Fault {
				if armed.Load() && at.Add(1) == n {
					panic(fixture.Boom)
				}
				return nil
			})
			armed.Store(!closing)
			d = nil
			_ = base.Catch(base.Bytewise, "a test", func() (err error) { d, err = db.Open("db", o); return err })
			if armed.Store(false); d != nil {
				_, _ = d.Get(testKey(5)) // opens a table
				armed.Store(closing)
				_ = base.Catch(base.Bytewise, "a test", d.Close)
			}
			requireUnused(t, r)
			ended = at.Load() < n
		}
	}
}
