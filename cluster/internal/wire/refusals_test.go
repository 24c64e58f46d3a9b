package wire

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalsAreLoggedAtABoundedRate(t *testing.T) {
	var r refusals
	now := time.Unix(1000, 0)
	lines := 0
	for range 1000 {
		if _, ok := r.next(now); ok {
			lines++
		}
	}
	require.Equal(t, loggedRefusals, lines)
	unlogged, ok := r.next(now.Add(refusalsWithin))
	require.True(t, ok)
	require.Equal(t, 1000-loggedRefusals, unlogged)
	unlogged, ok = r.next(now.Add(refusalsWithin))
	require.True(t, ok)
	require.Zero(t, unlogged)
}

func TestStrangersDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	l := listen(t, func(o *Options) {
		o.Logger, o.Secret = slog.New(slog.NewTextHandler(&log, nil)), []byte("a secret of nodes")
	})
	began := time.Now()
	for range 100 { // each has a wrong proof
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = conn.Write(append(testHello.append(nil), make([]byte, proofSize)...))
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, l.Close())
	lines := strings.Count(log.String(), "refused a connection")
	require.NotZero(t, lines)
	require.LessOrEqual(t, lines, loggedRefusals*(1+int(time.Since(began)/refusalsWithin)+1))
}
