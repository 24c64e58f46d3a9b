//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// preciousFile returns a file of this user that another user would like to change.
func preciousFile(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
	return name
}

func requirePrecious(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
}

// The state went to FILE.import.tmp, and through a link that another user had put there.
func TestTheStateOfAnImportIsWrittenThroughNoLink(t *testing.T) {
	path, dir, victim := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "db"), preciousFile(t)
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("k\tv\n", 3000)+"wrong\n"), 0o600))
	for _, name := range []string{path + stateSuffix, path + stateSuffix + ".tmp"} {
		require.NoError(t, os.Symlink(victim, name))
	}
	require.Contains(t, fails(t, exitFailed, "import", dir, path), "--resume continues after them")
	requirePrecious(t, victim)
	info, err := os.Lstat(path + stateSuffix)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestAnImportContinuesFromNoStateOfAnotherUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	lines := strings.Repeat("k\tv\n", 3000)
	for claim, plant := range map[string]func(name string, state []byte) error{
		"all can write it": func(name string, state []byte) error {
			if err := os.WriteFile(name, state, 0o600); err != nil {
				return err
			}
			return os.Chmod(name, 0o666)
		},
		"symbolic link": func(name string, state []byte) error {
			if err := os.WriteFile(name+".there", state, 0o600); err != nil {
				return err
			}
			return os.Symlink(name+".there", name)
		},
		"not a plain file": func(name string, _ []byte) error { return syscall.Mkfifo(name, 0o600) },
	} {
		path := filepath.Join(t.TempDir(), "lines")
		require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
		state, err := json.Marshal(importState{Dir: dir, Size: int64(len(lines)), Offset: int64(len(lines)), Format: formLines})
		require.NoError(t, err)
		require.NoError(t, plant(path+stateSuffix, state))
		require.Contains(t, fails(t, exitFailed, "import", dir, path, "--resume"), "import without --resume", claim)
		works(t, "import", dir, path)
	}
}

func TestAnExportContinuesNoFileOfAnotherUser(t *testing.T) {
	dir := newDatabase(t)
	for claim, plant := range map[string]func(name, victim string) error{
		"symbolic link": func(name, victim string) error { return os.Symlink(victim, name) },
		"hard link":     func(name, victim string) error { return os.Link(victim, name) },
		"all users can write": func(name, _ string) error {
			if err := os.WriteFile(name, []byte("{\"key\":\"a"), 0o600); err != nil {
				return err
			}
			return os.Chmod(name, 0o666)
		},
		"not a plain file": func(name, _ string) error { return syscall.Mkfifo(name, 0o600) },
	} {
		path, victim := filepath.Join(t.TempDir(), "out"), preciousFile(t)
		require.NoError(t, plant(path+partialSuffix, victim))
		require.Contains(t, fails(t, exitFailed, "export", dir, path), "is left from an interrupted export", claim)
		stderr := fails(t, exitFailed, "export", dir, path, "--resume")
		require.Contains(t, stderr, claim)
		require.Contains(t, stderr, "remove it, or choose another name", claim)
		requirePrecious(t, victim)
		require.NoFileExists(t, path)
	}
}

func TestTheHistoryIsWrittenThroughNoLink(t *testing.T) {
	home, victim := t.TempDir(), preciousFile(t)
	t.Setenv("XDG_STATE_HOME", home)
	require.NoError(t, os.Mkdir(filepath.Join(home, "sievedb"), 0o700))
	name := filepath.Join(home, "sievedb", "history")
	h := openHistory()
	require.NoError(t, os.Symlink(victim, name))
	h.add("get a")
	requirePrecious(t, victim)
	require.Nil(t, openHistory())
}
