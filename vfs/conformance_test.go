package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/vfs/vfstest"
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
		{"OS", freshOS},
		{"Mem", freshMem},
		{"Mem by relative names", func(t *testing.T) (vfs.FS, string) {
			m := vfs.NewMem()
			require.NoError(t, m.MkdirAll("db"))
			return m, "db"
		}},
		{"Counting over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return vfs.NewCounting(fsys), dir
		}},
		{"observed Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			c := vfs.NewCounting(fsys)
			c.Observe(func(vfs.Op) {})
			return c, dir
		}},
		{"Faulty over OS", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshOS(t)
			return vfs.NewFaulty(fsys, nil), dir
		}},
		{"Faulty over Counting over Mem", func(t *testing.T) (vfs.FS, string) {
			fsys, dir := freshMem(t)
			return vfs.NewFaulty(vfs.NewCounting(fsys), func(vfs.Op) *vfs.Fault { return nil }), dir
		}},
	} {
		t.Run(c.name, func(t *testing.T) { vfstest.Run(t, c.fresh) })
	}
}
