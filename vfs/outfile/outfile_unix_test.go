//go:build unix

package outfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// stranger is a user that no test runs as.
const stranger = 12345

// planted are what another user may have put under the name of an output file. victim is a file of this user.
var planted = []struct {
	claim, words string
	root         bool // only root can make it
	plant        func(name, victim string) error
}{
	{"a link to a file", "symbolic link", false, func(name, victim string) error { return os.Symlink(victim, name) }},
	{"a link to nothing", "symbolic link", false, func(name, victim string) error { return os.Symlink(victim+".new", name) }},
	{"a hard link", "another name", false, func(name, victim string) error { return os.Link(victim, name) }},
	{"a directory", "directory", false, func(name, _ string) error { return os.Mkdir(name, 0o700) }},
	{"a file of another user", "user 12345 owns it", true, func(name, _ string) error {
		if err := os.WriteFile(name, []byte("theirs"), 0o666); err != nil {
			return err
		}
		return os.Chown(name, stranger, stranger)
	}},
	{"a pipe of another user", "", true, func(name, _ string) error {
		if err := syscall.Mkfifo(name, 0o666); err != nil {
			return err
		}
		return os.Chown(name, stranger, stranger)
	}},
}

func TestNothingIsWrittenWhereAnotherUserWantsIt(t *testing.T) {
	calls := map[string]func(name string) (io.Closer, error){
		"Create": func(name string) (io.Closer, error) { return Create(name, 0o644) },
		"Append": func(name string) (io.Closer, error) { return Append(name, 0o644) },
		"Write":  func(name string) (io.Closer, error) { return nil, Write(name, []byte("text"), 0o644) },
		"New":    func(name string) (io.Closer, error) { return New(name, 0o644) },
		"Check":  func(name string) (io.Closer, error) { return nil, Check(name) },
		"OpenOwn": func(name string) (io.Closer, error) {
			return OpenOwn(name, os.O_RDWR)
		},
		"ReadOwn": func(name string) (io.Closer, error) {
			_, err := ReadOwn(name, 100)
			return nil, err
		},
	}
	for _, c := range planted {
		for call, f := range calls {
			t.Run(c.claim+", "+call, func(t *testing.T) {
				if c.root && os.Geteuid() != 0 {
					t.Skip("only root can make it")
				}
				dir := t.TempDir()
				name, victim := filepath.Join(dir, "name"), filepath.Join(dir, "victim")
				require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
				require.NoError(t, c.plant(name, victim))
				_, err := f(name)
				require.ErrorContains(t, err, name)
				if call != "New" {
					require.ErrorContains(t, err, c.words)
				}
				text := result.Of(os.ReadFile(victim))(t)
				require.Equal(t, "precious", string(text))
				require.NoFileExists(t, victim+".new")
			})
		}
	}
}

func TestCheckChangesNothing(t *testing.T) {
	dir := t.TempDir()
	old, missing, link := filepath.Join(dir, "old"), filepath.Join(dir, "new"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(old, []byte("as it was"), 0o644))
	require.NoError(t, os.Symlink(old, link))
	require.NoError(t, Check(old))
	require.NoError(t, Check(missing))
	require.NoError(t, Check(os.DevNull))
	require.NoError(t, Check("/dev/stdout"))
	require.ErrorContains(t, Check(link), "symbolic link")
	text := result.Of(os.ReadFile(old))(t)
	require.Equal(t, "as it was", string(text))
	require.NoFileExists(t, missing)
	require.ErrorIs(t, Check(filepath.Join(dir, "none", "file")), fs.ErrNotExist)
	require.Error(t, Check(dir), "a directory")
}

// What users expect of a flag that names a file.
func TestNamedOutputsAreReplacedInPlace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	require.NoError(t, Write(name, []byte("long text"), 0o644))
	require.NoError(t, os.Chmod(name, 0o666), "as on a drive of another system")
	before := result.Of(os.Stat(name))(t)
	require.NoError(t, Write(name, []byte("text"), 0o644))
	f := result.Of(Append(name, 0o644))(t)
	result.Of(f.WriteString(" and more"))(t)
	require.NoError(t, f.Close())
	text := result.Of(os.ReadFile(name))(t)
	require.Equal(t, "text and more", string(text))
	after := result.Of(os.Stat(name))(t)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.Mode(), after.Mode())
	require.NoError(t, Write(os.DevNull, []byte("text"), 0o644))
}

func TestPipesOfThisUserAreWrittenTo(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	for name, from := range map[string]*os.File{fmt.Sprintf("/dev/fd/%d", w.Fd()): r, fifo: reader} {
		require.NoError(t, Check(name))
		require.NoError(t, Write(name, []byte("text"), 0o644))
		got := make([]byte, 4)
		result.Of(io.ReadFull(from, got))(t)
		require.Equal(t, "text", string(got))
		require.NoError(t, from.Close())
	}
	require.NoError(t, w.Close())
}

func TestOnlyFilesThatNobodyElseCanWriteAreContinued(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Replace(name, []byte("state"), 0o600))
	text := result.Of(ReadOwn(name, 5))(t)
	require.Equal(t, "state", string(text))
	require.ErrorContains(t, result.Err(ReadOwn(name, 4)), "more than 4 bytes")
	require.NoError(t, os.Chmod(name, 0o666))
	require.ErrorIs(t, result.Err(ReadOwn(name, 5)), vfs.ErrNotOwn)
	require.ErrorIs(t, result.Err(ReadOwn(name+".none", 5)), fs.ErrNotExist)
}

func TestReplaceReplacesALink(t *testing.T) {
	dir := t.TempDir()
	name, victim := filepath.Join(dir, "name"), filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	require.NoError(t, os.Symlink(victim, name))
	require.NoError(t, Replace(name, []byte("text"), 0o600))
	for file, want := range map[string]string{name: "text", victim: "precious"} {
		text := result.Of(os.ReadFile(file))(t)
		require.Equal(t, want, string(text))
	}
	require.Error(t, Replace(dir, nil, 0o600), "a directory")
	list := result.Of(filepath.Glob(dir + "*.tmp"))(t)
	require.Empty(t, list)
}
