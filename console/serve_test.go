package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

// serveFor runs Serve until the test ends, and returns the address of the page and what was printed after it.
func serveFor(t *testing.T, dir string, o ServeOptions) (url string, rest func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	printed := make(chan string, 10)
	o.Out, o.Address = lineWriter(printed), "127.0.0.1:0"
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, dir, &o) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case line := <-printed:
		return regexp.MustCompile(`http://\S+`).FindString(line), func() string { return <-printed }
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return "", nil
	}
}

type lineWriter chan string

func (w lineWriter) Write(text []byte) (int, error) {
	w <- string(text)
	return len(text), nil
}

func getJSON(url string, into any) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

// Serve follows a database that another DB has open, and shows its writes.
func TestServeFollowsALiveDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("followers are not supported")
	}
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	url, _ := serveFor(t, dir, ServeOptions{Refresh: 5 * time.Millisecond})
	var s status
	require.Eventually(t, func() bool {
		s = status{}
		return getJSON(url+"api/status", &s) == nil && s.Metrics.LastSequence == 1 && s.Lag != nil && s.Lag.Operations == 0
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "follower", s.Mode)
	require.Equal(t, dir, s.Title)
	require.Empty(t, s.LagFail)
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "<title>SieveDB console</title>")
}

// An idle directory is not "followed", and a damaged log is said and shown: a follower takes its end for one that is
// being written, and the page showed a truncated store and two calm words.
func TestServeSaysWhatItFoundOfTheDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("followers are not supported")
	}
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	}
	var s status
	url, _ := serveFor(t, dir, ServeOptions{})
	require.NoError(t, getJSON(url+"api/status", &s))
	require.False(t, s.Idle, "this program has it open")
	require.NoError(t, store.Close())

	s = status{}
	url, _ = serveFor(t, dir, ServeOptions{})
	require.NoError(t, getJSON(url+"api/status", &s))
	require.True(t, s.Idle)
	require.EqualValues(t, -1, s.Quiet)
	require.Empty(t, s.Damage)

	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	log, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	log[len(bytes.TrimRight(log, "\x00"))-1] ^= 1
	require.NoError(t, os.WriteFile(logs[0], log, 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	printed, said, ended := make(lineWriter, 10), make(lineWriter, 10), make(chan error, 1)
	go func() { ended <- Serve(ctx, dir, &ServeOptions{Address: "127.0.0.1:0", Out: printed, Err: said}) }()
	url = regexp.MustCompile(`http://\S+`).FindString(<-printed)
	require.Regexp(t, "^the page shows what can be read, but the database is damaged: .*000001.log", <-said)
	s = status{}
	require.NoError(t, getJSON(url+"api/status", &s))
	require.EqualValues(t, 2, s.Metrics.LastSequence)
	require.Contains(t, s.Damage, "000001.log")
	cancel()
	require.ErrorIs(t, <-ended, db.ErrCorruption)
}

// The page of a directory has its filters in memory: nobody looks anything up there, and all tables were grey.
func TestServeOpensTheTables(t *testing.T) {
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Put([]byte("key"), nil, nil))
	require.NoError(t, store.Flush())
	require.NoError(t, store.Close())
	url, _ := serveFor(t, dir, ServeOptions{})
	var tables report.FilterReport
	require.NoError(t, getJSON(url+"api/tables", &tables))
	require.Len(t, tables.Tables, 1)
	require.Positive(t, tables.Tables[0].FilterBytes)
	require.NotEqual(t, report.VerdictUnopened, tables.Tables[0].Verdict)

	files, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NoError(t, os.Chmod(files[0], 0o600))
	table, err := os.ReadFile(files[0])
	require.NoError(t, err)
	table[len(table)-1] ^= 1
	require.NoError(t, os.WriteFile(files[0], table, 0o600))
	url, _ = serveFor(t, dir, ServeOptions{})
	require.NoError(t, getJSON(url+"api/tables", &tables))
	var s status
	require.NoError(t, getJSON(url+"api/status", &s))
	require.Contains(t, s.Unopened, filepath.Base(files[0]))
}

// The name in the address is one under which the page is served.
func TestServeKnowsTheNameOfItsAddress(t *testing.T) {
	require.Equal(t, []string{"db.example.com"}, nameIn("db.example.com:7433"))
	for _, address := range []string{"", ":7433", "127.0.0.1:7433", "[::1]:7433", "nonsense"} {
		require.Empty(t, nameIn(address), address)
	}
}

// With AllowWrite the database is open for writing, and the printed token allows it.
func TestServeForWriting(t *testing.T) {
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	url, rest := serveFor(t, dir, ServeOptions{AllowWrite: true})
	require.Regexp(t, `^the token for changes is [A-Z2-7]{26}\n$`, rest())
	var s status
	require.NoError(t, getJSON(url+"api/status", &s))
	require.Equal(t, "store", s.Mode)
	require.True(t, s.Write)
	_, err = db.Open(dir, nil)
	require.ErrorIs(t, err, db.ErrLocked)
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, Serve(context.Background(), dir, nil), fs.ErrNotExist)
	require.ErrorIs(t, Serve(context.Background(), dir+"/missing", &ServeOptions{Address: "127.0.0.1:0"}), fs.ErrNotExist)
	require.ErrorIs(t, Serve(context.Background(), dir+"/missing", &ServeOptions{AllowWrite: true}), fs.ErrNotExist)
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.ErrorContains(t, Serve(context.Background(), dir, &ServeOptions{Address: "0.0.0.0:0"}), "loopback")
	require.ErrorContains(t, Serve(context.Background(), dir, &ServeOptions{Address: "nonsense"}), "cannot listen on nonsense")
	require.ErrorIs(t, Serve(context.Background(), dir, &ServeOptions{Address: "127.0.0.1:0", Out: closedWriter{}}), errClosedWriter)
}

var errClosedWriter = errors.New("closed")

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, errClosedWriter }
