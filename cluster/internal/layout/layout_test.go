package layout

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The bytes are on disks: they never change.
func TestBytes(t *testing.T) {
	for want, got := range map[string][]byte{
		"6b" + "2fa6" + "666f6f":                      AppendKey(nil, 0x2fa6, []byte("foo")),
		"78" + "000001a2b3c4d5e6" + "2fa6" + "666f6f": AppendHint(nil, ExpiryPrefix, 0x1a2b3c4d5e6, 0x2fa6, []byte("foo")),
		"6f" + "2fa6" + "666f6f":                      AppendOutcomeKey(nil, 0x2fa6, []byte("foo")),
		"70" + "000001a2b3c4d5e6" + "2fa6" + "666f6f": AppendHint(nil, OutcomeExpiryPrefix, 0x1a2b3c4d5e6, 0x2fa6, []byte("foo")),
		"000001a2b3c4d5e6" + "626172":                 AppendOutcome(nil, 0x1a2b3c4d5e6, []byte("bar")),
		"6d" + "636c6f636b":                           Meta("clock"),
		"00" + "626172":                               AppendValue(nil, kv.Value{Data: []byte("bar")}),
		"01" + "000001a2b3c4d5e6" + "626172":          AppendValue(nil, kv.Value{Data: []byte("bar"), ExpireAt: 0x1a2b3c4d5e6}),
		"01" + "01" + "0000000000000007" + "00000008" + "0000000000000009" + "000001a2b3c4d5e6" + "ff": append(
			AppendEntryHeader(nil, Entry{EntryDeleteAll, Chain{7, 8, 9}, 0x1a2b3c4d5e6, nil}), 0xff),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
}

func TestWhatIsNotValidIsRefused(t *testing.T) {
	_, _, err := ParseKey([]byte("kx"))
	require.ErrorContains(t, err, "a key of 2 bytes")
	for prefix, key := range map[byte]string{ExpiryPrefix: "x123456789", OutcomeExpiryPrefix: "x1234567890"} {
		_, _, _, err = ParseHint(prefix, []byte(key))
		require.ErrorContains(t, err, fmt.Sprintf("a key of %d bytes", len(key)))
	}
	for _, value := range []string{"", "\x02data", "\x01short", "\x01\x00\x00\x00\x00\x00\x00\x00\x00zero"} {
		_, err := ParseValue([]byte(value))
		require.ErrorIs(t, err, errValue, "%q", value)
	}
	good := AppendEntryHeader(nil, Entry{EntryBatch, Chain{1, 0, 0}, 2, nil})
	for want, change := range map[string]func(b []byte) []byte{
		"has 29 bytes":               func(b []byte) []byte { return b[:29] },
		"version 2, and version 1":   func(b []byte) []byte { b[0] = 2; return b },
		"has kind 2, and kinds up t": func(b []byte) []byte { b[1] = 2; return b },
	} {
		_, err := ParseEntry(change(append([]byte(nil), good...)))
		require.ErrorContains(t, err, want)
	}
}

func TestEntriesCountThatFollowEachOther(t *testing.T) {
	last := Chain{5, 1, 7}
	for name, c := range map[string]struct {
		next    Chain
		logTerm uint64
		counts  bool
	}{
		"the next one":               {Chain{5, 1, 8}, 5, true},
		"the beginning of an epoch":  {Chain{5, 2, 0}, 5, true},
		"the beginning of a term":    {Chain{6, 0, 0}, 6, true},
		"the same one":               {Chain{5, 1, 7}, 5, false},
		"one is missing":             {Chain{5, 1, 9}, 5, false},
		"of another epoch":           {Chain{5, 0, 8}, 5, false},
		"in the log of a later term": {Chain{5, 1, 8}, 6, false},
		"a beginning, too late":      {Chain{5, 2, 0}, 6, false},
	} {
		require.Equal(t, c.counts, c.next.Continues(last, c.logTerm), name)
	}
	require.False(t, Chain{5, 1, 1}.Continues(Chain{}, 5), "nothing has begun")
	require.True(t, Chain{5, 1, 1}.Continues(Chain{5, 1, 0}, 5))
}

// What is accepted is written back as it was.
func FuzzParse(f *testing.F) {
	f.Add(AppendKey(nil, 1, []byte("key")))
	f.Add(AppendHint(nil, ExpiryPrefix, 1, 2, []byte("key")))
	f.Add(AppendHint(nil, OutcomeExpiryPrefix, 1, 2, []byte("id")))
	f.Add(AppendOutcome(nil, 1, []byte("outcome")))
	f.Add(AppendValue(nil, kv.Value{Data: []byte("data"), ExpireAt: 1}))
	f.Add(AppendEntryHeader(nil, Entry{EntryDeleteAll, Chain{1, 2, 3}, 2, nil}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if slot, key, err := ParseKey(b); err == nil {
			require.Equal(t, b, AppendKey(nil, slot, key))
		}
		if until, outcome, err := ParseOutcome(b); err == nil {
			require.Equal(t, b, AppendOutcome(nil, until, outcome))
		}
		for _, prefix := range []byte{ExpiryPrefix, OutcomeExpiryPrefix} {
			if at, slot, id, err := ParseHint(prefix, b); err == nil {
				require.Equal(t, b, AppendHint(nil, prefix, at, slot, id))
			}
		}
		if v, err := ParseValue(b); err == nil {
			require.Equal(t, b, AppendValue(nil, v))
		}
		if e, err := ParseEntry(b); err == nil {
			require.Equal(t, b, append(AppendEntryHeader(nil, e), e.Payload...))
		}
	})
}
