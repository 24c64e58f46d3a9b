//go:build unix

package dbdir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: the own directory under another name was refused as LogDir.
func TestALinkToTheOwnDirectoryBringsTheLogsBack(t *testing.T) {
	root := t.TempDir()
	dir, link, logs := filepath.Join(root, "db"), filepath.Join(root, "link"), filepath.Join(root, "logs")
	putIn(t, vfs.OS, dir, logs, "a")
	require.NoError(t, os.Symlink(dir, link))
	o := logsIn(nil, link)
	require.NoError(t, db.Repair(dir, o))
	putIn(t, vfs.OS, dir, link, "b")
	require.NotEmpty(t, logsOf(t, vfs.OS, dir))
	requireKeys(t, vfs.OS, link, "a", "b")

	putIn(t, vfs.OS, dir, logs)
	removeDir(t, vfs.OS, logs)
	report := storetest.RepairWith(t, dir, o)
	require.Equal(t, logs, report.LogsAbandoned)

	later := filepath.Join(root, "later")
	require.NoError(t, os.Symlink(later, later+" link"))
	putIn(t, vfs.OS, later, later+" link", "c")
	requireKeys(t, vfs.OS, later, "c")
}

// The bug: a link that leads nowhere as LogDir left the new directory of the database, and the error had no
// "sievedb: ".
func TestALinkThatLeadsNowhereIsNoLogDirectory(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(root, "link")
	require.NoError(t, os.Symlink(filepath.Join(root, "nowhere"), link))
	o := logsIn(nil, link)
	_, err := db.Open(filepath.Join(root, "new", "deep"), o)
	require.ErrorContains(t, err, "sievedb: creating the directory "+link)
	require.Equal(t, []string{"link"}, result.Of(vfs.OS.List(root))(t))
}
