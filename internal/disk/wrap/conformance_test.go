package wrap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func freshOS(t *testing.T) (vfs.FS, string) { return vfs.OS, t.TempDir() }

func freshMem(t *testing.T) (vfs.FS, string) {
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("/some/db"))
	return m, "/some/db"
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name  string
		fresh func(t *testing.T) (vfs.FS, string)
	}{
		{"Counting over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return wrap.NewCounting(fsys), dir
		}},
		{"observed Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			c := wrap.NewCounting(fsys)
			c.Observe(func(wrap.Op) {})
			return c, dir
		}},
		{"Faulty over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return wrap.NewFaulty(fsys, nil), dir
		}},
		{"Faulty over Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			return wrap.NewFaulty(wrap.NewCounting(fsys), func(wrap.Op) *wrap.Fault { return nil }), dir
		}},
	} {
		t.Run(c.name, func(t *testing.T) { vfstest.Run(t, c.fresh) })
	}
}
