//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
)

// childVariable makes the test binary a process that locks files on command. Each line of its standard input is "how
// path", to lock a file and answer "done" or the error, or "release", to release the lock.
const childVariable = "SIEVEDB_TEST_LOCKER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runCommands(os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func runCommands(commands io.Reader) {
	var lock io.Closer
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		how, path, ok := strings.Cut(lines.Text(), " ")
		var err error
		if ok {
			lock, err = lockAs(how, path)
		} else {
			err = lock.Close()
		}
		if err != nil {
			fmt.Printf("refused: %v\n", err)
			continue
		}
		fmt.Println("done")
	}
}

// lockAs locks like SieveDB or like another program: LevelDB, Pebble and RocksDB use an ordinary
// fcntl lock on the whole file, goleveldb uses flock.
func lockAs(how, path string) (io.Closer, error) {
	family, mode, _ := strings.Cut(how, "-")
	shared := mode == "shared"
	switch family {
	case "sieve":
		return OS.Lock(path, shared)
	case "powerless":
		return lockWithoutRights(path, shared)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if family == "flock" {
		err = flockLock(f, shared)
	} else {
		kind := int16(syscall.F_WRLCK)
		if shared {
			kind = syscall.F_RDLCK
		}
		err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Whence: io.SeekStart})
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lockWithoutRights locks as a user who may read the directory but not write to it. It uses a
// relative name, because that user may have no access to the path of the directory.
func lockWithoutRights(path string, shared bool) (io.Closer, error) {
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := syscall.Setuid(nobody); err != nil {
			return nil, err
		}
	}
	return OS.Lock(filepath.Base(path), shared)
}

// process is another process that executes lock commands.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *bufio.Reader
}

// emulatorVariable is the environment variable with the emulator that runs this test binary, if
// any; its child processes need the emulator too. "make platforms" sets it.
const emulatorVariable = "SIEVEDB_TEST_EMULATOR"

func startProcess(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	if emulator := os.Getenv(emulatorVariable); emulator != "" {
		cmd = exec.Command(emulator, os.Args[0])
	}
	// The race detector makes a process wait a second before it exits; turn that off.
	cmd.Env = append(os.Environ(), childVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	stdin := result.Of(cmd.StdinPipe())(t)
	stdout := result.Of(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	return &process{cmd: cmd, stdin: stdin, answers: bufio.NewReader(stdout)}
}

func (p *process) ask(t *testing.T, command string) string {
	t.Helper()
	result.Of(fmt.Fprintln(p.stdin, command))(t)
	answer := result.Of(p.answers.ReadString('\n'))(t)
	return strings.TrimSpace(answer)
}

func (p *process) lock(t *testing.T, how, path string) string {
	t.Helper()
	return p.ask(t, how+" "+path)
}

func (p *process) release(t *testing.T) {
	t.Helper()
	require.Equal(t, "done", p.ask(t, "release"))
}

func (p *process) end(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.cmd.Wait())
}

var families = []string{"sieve", "fcntl", "flock"}

func TestLockBetweenProcesses(t *testing.T) {
	rival := startProcess(t)
	for _, family := range families {
		for _, theirs := range []string{"exclusive", "shared"} {
			for _, ours := range []string{"exclusive", "shared"} {
				compatible := theirs == "shared" && ours == "shared"
				verb := map[bool]string{true: "is compatible with", false: "excludes"}[compatible]
				t.Run(fmt.Sprintf("%s %s %s our %s", family, theirs, verb, ours), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "LOCK")

					require.Equal(t, "done", rival.lock(t, family+"-"+theirs, path))
					l, err := OS.Lock(path, ours == "shared")
					if compatible {
						require.NoError(t, err)
						require.NoError(t, l.Close())
					} else {
						require.ErrorIs(t, err, base.ErrLocked)
						require.ErrorContains(t, err, "another process has it open")
						require.ErrorContains(t, err, path)
					}
					rival.release(t)

					// The same in the other direction.
					l = result.Of(OS.Lock(path, ours == "shared"))(t)
					answer := rival.lock(t, family+"-"+theirs, path)
					require.Equal(t, compatible, answer == "done", answer)
					if compatible {
						rival.release(t)
					}
					require.NoError(t, l.Close())
					require.Equal(t, "done", rival.lock(t, family+"-exclusive", path), "after Close")
					rival.release(t)
				})
			}
		}
	}
	rival.end(t)
}

func TestKilledProcessLeavesNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	p := startProcess(t)
	require.Equal(t, "done", p.lock(t, "sieve-exclusive", path))
	require.ErrorIs(t, result.Err(OS.Lock(path, false)), base.ErrLocked)
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait())
	l := result.Of(OS.Lock(path, false))(t)
	require.NoError(t, l.Close())
}

// An ordinary fcntl lock is lost when its process closes any descriptor of the file; ours must not be.
func TestLockOutlivesOtherDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	l := result.Of(OS.Lock(path, false))(t)
	f := result.Of(os.Open(path))(t)
	require.NoError(t, f.Close())
	require.ErrorIs(t, result.Err(OS.Lock(path, false)), base.ErrLocked)
	rival := startProcess(t)
	for _, family := range families {
		require.Contains(t, rival.lock(t, family+"-exclusive", path), "refused", family)
	}
	rival.end(t)
	require.NoError(t, l.Close())
}

// When one of two shared holders releases its lock, the other's must remain.
func TestSharedLockOutlivesOtherHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	one := result.Of(OS.Lock(path, true))(t)
	two := result.Of(OS.Lock(path, true))(t)
	require.NoError(t, one.Close())
	require.ErrorIs(t, one.Close(), fs.ErrClosed, "a second Close does not release another holder's share")
	rival := startProcess(t)
	for _, family := range families {
		require.Contains(t, rival.lock(t, family+"-exclusive", path), "refused", family)
	}
	require.NoError(t, two.Close())
	require.Equal(t, "done", rival.lock(t, "sieve-exclusive", path))
	rival.end(t)
}

func TestSecondOpenByAnotherPathIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	require.NoError(t, os.Symlink("db", filepath.Join(dir, "alias")))
	path := filepath.Join(dir, "db", "LOCK")
	l, err := OS.Lock(path, false)
	require.NoError(t, err)
	require.NoError(t, os.Link(path, filepath.Join(dir, "hardlink")))
	for _, other := range []string{"alias/LOCK", "db/../db/LOCK", "hardlink"} {
		for _, shared := range []bool{false, true} {
			_, err = OS.Lock(filepath.Join(dir, other), shared)
			require.ErrorIs(t, err, base.ErrLocked, other)
			require.ErrorContains(t, err, "this process has it open already")
		}
	}
	require.NoError(t, l.Close())
	l = result.Of(OS.Lock(filepath.Join(dir, "alias", "LOCK"), false))(t)
	require.NoError(t, l.Close())
}

func TestLockOfReplacedFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	f := result.Of(os.Create(path))(t)
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, result.Err(acquire(f, path, false)), errReplaced, "removed before the lock was taken")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := acquire(f, path, false)
	require.ErrorIs(t, err, errReplaced, "and replaced by another file")
	require.ErrorIs(t, err, base.ErrLocked)
	require.NoError(t, f.Close())
}

// A process that had opened LOCK when another one removed it was refused, although no process held a lock any more.
func TestLockRetriesOnReplacedFile(t *testing.T) {
	for _, shared := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "LOCK")
		opened := 0
		open := func() (*os.File, error) {
			f, err := openLockFile(path, shared, 0o600)
			if opened++; opened <= 2 { // remove the file after it was opened
				require.NoError(t, os.Remove(path))
			}
			return f, err
		}
		take := func() (*heldLock, error) {
			locksOfProcess.mu.Lock()
			defer locksOfProcess.mu.Unlock()
			return locksOfProcess.takeLocked(path, shared, open)
		}
		h := result.Of(take())(t)
		require.Equal(t, 3, opened)
		rival := startProcess(t)
		require.Contains(t, rival.lock(t, "sieve-exclusive", path), "refused", "the lock is on the file with the name")
		require.NoError(t, (&lockHandle{name: path, lock: h}).Close())
		require.Equal(t, "done", rival.lock(t, "sieve-exclusive", path))
		rival.end(t)

		opened = -1000 // keep replacing it
		require.NoError(t, os.Remove(path))
		require.ErrorIs(t, result.Err(take()), base.ErrLocked)
	}
}

func TestSharedLockOfUnwritableDirectory(t *testing.T) {
	for _, c := range []struct {
		name, how string
		file      bool // LOCK exists
		want      string
	}{
		{"a missing LOCK locks nothing for a reader", "powerless-shared", false, "done"},
		{"a missing LOCK refuses a writer", "powerless-exclusive", false, "permission denied"},
		{"an existing LOCK is locked for a reader", "powerless-shared", true, "done"},
		{"an unwritable LOCK refuses a writer", "powerless-exclusive", true, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "LOCK")
			if c.file {
				require.NoError(t, os.WriteFile(path, nil, 0o444))
			}
			require.NoError(t, os.Chmod(dir, 0o555))
			p := startProcess(t)
			require.Contains(t, p.lock(t, c.how, path), c.want)
			require.NoError(t, os.Chmod(dir, 0o755))
			if !c.file {
				require.NoFileExists(t, path)
			}
			if c.file && c.want == "done" {
				require.NoError(t, os.Chmod(path, 0o600))
				require.ErrorIs(t, result.Err(OS.Lock(path, false)), base.ErrLocked, "the reader holds the lock")
			}
			p.end(t)
		})
	}
}
