package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
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
