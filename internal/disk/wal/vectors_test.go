package wal

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is one log of testdata/logs.txt.
type vector struct {
	name    string
	records [][]byte
	log     []byte
}

func readVectors(t testing.TB) []vector {
	text, err := os.ReadFile("testdata/logs.txt")
	require.NoError(t, err)
	var all []vector
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "":
		case word == "log":
			all = append(all, vector{name: rest})
		case word == "record":
			v := &all[len(all)-1]
			v.records = append(v.records, vectorBytes(t, rest))
		default:
			v := &all[len(all)-1]
			v.log = append(v.log, vectorBytes(t, line)...)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// vectorBytes decodes "61 62 63", or "61 * 1000".
func vectorBytes(t testing.TB, s string) []byte {
	digits, times, repeated := strings.Cut(s, "*")
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
	require.NoError(t, err)
	if repeated {
		n, err := strconv.Atoi(strings.TrimSpace(times))
		require.NoError(t, err)
		b = bytes.Repeat(b, n)
	}
	return b
}

func TestVectorsRoundTrip(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			for _, o := range []ReaderOptions{{}, {Last: true}, {AllowTornEnd: true}} {
				r := open(v.log, o)
				got, err := readAll(r)
				require.Same(t, io.EOF, err)
				requireRecords(t, v.records, got)
				require.Equal(t, Tail{Offset: int64(len(v.log)), Resume: -1}, r.Tail())
			}
			log, _ := encode(t, v.records...)
			require.Len(t, log, len(v.log))
			require.True(t, bytes.Equal(v.log, log))
		})
	}
}
