package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressInAFileIsALineNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := startProgress(&out, false, "lookups", 100, 0)
		p.done.Add(25)
		time.Sleep(lineGap + time.Second)
		p.done.Add(50)
		time.Sleep(lineGap)
		p.close()
		require.Equal(t, "lookups: 25 % done, about 30 s left\nlookups: 75 % done, about 7 s left\n", out.String())
	})
}

func TestRoughTimesAreRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1 s", 3 * time.Second: "3 s", 12 * time.Second: "15 s", 100 * time.Second: "2 min", 100 * time.Minute: "2 h",
	} {
		require.Equal(t, want, durationText(d))
	}
}

func TestProgressShowsOnTerminalsOnly(t *testing.T) {
	var out bytes.Buffer
	require.False(t, isTerminal(&out))
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	require.False(t, isTerminal(f))

	p := startProgress(&out, false, "x", 10, 0)
	p.done.Add(10)
	p.close()
	require.Empty(t, out.String())

	synctest.Test(t, func(t *testing.T) {
		p := startProgress(&out, true, "x", 10, 4*drawGap)
		time.Sleep(drawGap + drawGap/2)
		p.close()
		require.Equal(t, "\r\x1b[Kx: 25 % done, about 1 s left\r\x1b[K", out.String())
	})
}
