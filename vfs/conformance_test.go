package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
		{"OS", freshOS},
		{"OS for reading", func(t *testing.T) (vfs.FS, string) { return vfs.NewOSForReading(vfs.DefaultFileMode), t.TempDir() }},
		{"Mem", freshMem},
		{"Mem by relative names", func(t *testing.T) (vfs.FS, string) {
			m := vfs.NewMem()
			require.NoError(t, m.MkdirAll("db"))
			return m, "db"
		}},
	} {
		t.Run(c.name, func(t *testing.T) { vfstest.Run(t, c.fresh) })
	}
}
