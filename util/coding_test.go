package util

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFixedIntegersAreLittleEndian(t *testing.T) {
	require.Equal(t, []byte{9, 4, 3, 2, 1}, AppendFixed32([]byte{9}, 0x01020304))
	require.Equal(t, []byte{9, 8, 7, 6, 5, 4, 3, 2, 1}, AppendFixed64([]byte{9}, 0x0102030405060708))

	b := make([]byte, 9)
	PutFixed32(b, 0x01020304)
	require.Equal(t, []byte{4, 3, 2, 1, 0, 0, 0, 0, 0}, b)
	require.Equal(t, uint32(0x01020304), Fixed32(b))
	PutFixed64(b, 0x0102030405060708)
	require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1, 0}, b)
	require.Equal(t, uint64(0x0102030405060708), Fixed64(b))
}

// varintCases are encodings on which all readers of the format agree.
var varintCases = []struct {
	v   uint64
	enc []byte
}{
	{0, []byte{0}},
	{1, []byte{1}},
	{127, []byte{0x7f}},
	{128, []byte{0x80, 0x01}},
	{300, []byte{0xac, 0x02}},
	{1<<14 - 1, []byte{0xff, 0x7f}},
	{1 << 14, []byte{0x80, 0x80, 0x01}},
	{1<<28 - 1, []byte{0xff, 0xff, 0xff, 0x7f}},
	{1 << 28, []byte{0x80, 0x80, 0x80, 0x80, 0x01}},
	{math.MaxUint32, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
	{1 << 32, []byte{0x80, 0x80, 0x80, 0x80, 0x10}},
	{1<<63 - 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
	{1 << 63, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
	{math.MaxUint64, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
}

func TestVarintEncodings(t *testing.T) {
	for _, c := range varintCases {
		t.Run(fmt.Sprint(c.v), func(t *testing.T) {
			require.Equal(t, append([]byte{7}, c.enc...), AppendUvarint64([]byte{7}, c.v))
			require.Equal(t, len(c.enc), UvarintLen(c.v))
			v, n := Uvarint64(append(bytes.Clone(c.enc), 0xff))
			require.Equal(t, c.v, v)
			require.Equal(t, len(c.enc), n)
			if c.v > math.MaxUint32 {
				v32, n32 := Uvarint32(c.enc)
				require.Zero(t, n32, "a 33rd bit must be refused")
				require.Zero(t, v32)
				return
			}
			require.Equal(t, append([]byte{7}, c.enc...), AppendUvarint32([]byte{7}, uint32(c.v)))
			v32, n32 := Uvarint32(append(bytes.Clone(c.enc), 0xff))
			require.Equal(t, uint32(c.v), v32)
			require.Equal(t, len(c.enc), n32)
		})
	}
}

func TestVarintsRoundTripAroundPowersOfTwo(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{1<<shift - 1, 1 << shift, 1<<shift + 1} {
			enc := AppendUvarint64(nil, v)
			require.Len(t, enc, UvarintLen(v))
			got, n := Uvarint64(enc)
			require.Equal(t, v, got)
			require.Equal(t, len(enc), n)
			if v <= math.MaxUint32 {
				require.Equal(t, enc, AppendUvarint32(nil, uint32(v)))
				got32, n32 := Uvarint32(enc)
				require.Equal(t, v, uint64(got32))
				require.Equal(t, len(enc), n32)
			}
		}
	}
}

func TestCutVarintsAreRefused(t *testing.T) {
	for _, c := range varintCases {
		for i := range c.enc {
			_, n := Uvarint64(c.enc[:i:i])
			require.Zero(t, n, "% x", c.enc[:i])
			_, n = Uvarint32(c.enc[:i:i])
			require.Zero(t, n, "% x", c.enc[:i])
		}
	}
}

func TestMalformedVarintsAreRefused(t *testing.T) {
	ff := func(n int, last ...byte) []byte { return append(bytes.Repeat([]byte{0xff}, n), last...) }
	for _, c := range []struct {
		name     string
		enc      []byte
		n32, n64 int
	}{
		{"33 bits do not fit 32", ff(4, 0x1f), 0, 5},
		{"a sixth byte is too long for 32 bits", ff(5, 0x00), 0, 6},
		{"a fifth byte that says more follows is too long for 32 bits", ff(4, 0x8f, 0x00), 0, 6},
		{"65 bits do not fit 64", ff(9, 0x02), 0, 0},
		{"an eleventh byte is too long", ff(10, 0x00), 0, 0},
		{"endless continuation", ff(64), 0, 0},
		{"more bytes than needed are accepted, as by LevelDB", []byte{0x80, 0x80, 0x00}, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			v32, n32 := Uvarint32(c.enc)
			require.Equal(t, c.n32, n32)
			v64, n64 := Uvarint64(c.enc)
			require.Equal(t, c.n64, n64)
			if n32 == 0 {
				require.Zero(t, v32, "no value from an invalid varint")
			}
			if n64 == 0 {
				require.Zero(t, v64, "no value from an invalid varint")
			}
		})
	}
}

func TestLengthPrefixedStrings(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 300, 1 << 14} {
		s := bytes.Repeat([]byte{'s'}, size)
		b := append(AppendLengthPrefixed([]byte("head"), s), "tail"...)
		got, rest, ok := LengthPrefixed(b[4:])
		require.True(t, ok)
		require.Equal(t, string(s), string(got))
		require.Equal(t, "tail", string(rest))
		require.Equal(t, len(got), cap(got), "an append to the string must not overwrite the following bytes")
	}
}

func TestLengthsBeyondTheEndAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"length without string", []byte{1}},
		{"one byte short", []byte{3, 'a', 'b'}},
		{"length cut short", []byte{0x80}},
		{"four gigabytes in six bytes", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 'a'}},
		{"two gigabytes, negative as a 32-bit int", []byte{0x80, 0x80, 0x80, 0x80, 0x08, 'a'}},
		{"length beyond 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x10, 'a'}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, rest, ok := LengthPrefixed(c.b)
			require.False(t, ok)
			require.Nil(t, s)
			require.Nil(t, rest)
		})
	}
}

func FuzzUvarint(f *testing.F) {
	for _, c := range varintCases {
		f.Add(c.enc)
	}
	f.Add(bytes.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, b []byte) {
		v64, n64 := Uvarint64(b)
		// The standard library decodes the same format; it distinguishes truncation and overflow
		// (0 and negative), which we do not.
		want, wantN := binary.Uvarint(b)
		require.Equal(t, max(wantN, 0), n64)
		if n64 > 0 {
			require.Equal(t, want, v64)
			require.LessOrEqual(t, UvarintLen(v64), n64)
			if UvarintLen(v64) == n64 {
				require.Equal(t, b[:n64], AppendUvarint64(nil, v64))
			}
		}
		v32, n32 := Uvarint32(b)
		if n64 > 0 && n64 <= MaxVarint32Len && v64 <= math.MaxUint32 {
			require.Equal(t, n64, n32)
			require.Equal(t, v64, uint64(v32))
		} else {
			require.Zero(t, n32)
		}
	})
}

func FuzzLengthPrefixed(f *testing.F) {
	f.Add([]byte("\x05helloworld"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, rest, ok := LengthPrefixed(AppendLengthPrefixed(nil, b))
		require.True(t, ok)
		require.Equal(t, string(b), string(got))
		require.Empty(t, rest)

		s, rest, ok := LengthPrefixed(b)
		if !ok {
			return
		}
		require.Equal(t, string(b[len(b)-len(rest):]), string(rest))
		prefix := len(b) - len(s) - len(rest)
		require.Equal(t, string(b[prefix:prefix+len(s)]), string(s))
		if prefix == UvarintLen(uint64(len(s))) {
			require.Equal(t, b[:prefix+len(s)], AppendLengthPrefixed(nil, s))
		}
	})
}
