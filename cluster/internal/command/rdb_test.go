package command

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// redisDumps are values that redis-server 7.0.15 has dumped. The last two are compressed.
var redisDumps = map[string]string{
	"00c00a0a006e9f57450eae63bb":                       "10",
	"00c17fff0a001760822854808480":                     "-129",
	"00c2ffffff7f0a002c74e59ee02eada1":                 "2147483647",
	"000568656c6c6f0a006372df766534200a":               "hello",
	"00000a005d9b5c400f7fa2da":                         "",
	"00c3094061016161e054000161610a00376ae4d8a4e5c285": strings.Repeat("a", 97),
	"00c3112d0361626361e014020278797aa0200162630a00e4b4e408b8cc7713": strings.Repeat("abc", 11) + "xyz" +
		strings.Repeat("abc", 3),
}

func TestDumpsOfRedisAreRead(t *testing.T) {
	require.Equal(t, uint64(0xe9c6d914c4b8d9ca), rdbChecksum([]byte("123456789")), "the check value of Redis's crc64.c")
	for in, want := range redisDumps {
		raw, err := hex.DecodeString(in)
		require.NoError(t, err)
		got, err := parseDump(raw, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		if raw[1] != rdbLZF { // ours has another version, and is not compressed
			ours := appendDump(nil, got)
			require.Equal(t, raw[:len(raw)-rdbFooter], ours[:len(ours)-rdbFooter])
		}
	}
}

// sealed is a dump of some bytes with a good footer.
func sealed(body string, version uint16) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(body), version)
	return binary.LittleEndian.AppendUint64(b, rdbChecksum(b))
}

func TestTheExampleOfTheFormatIsTrue(t *testing.T) {
	require.Equal(t, "000568656c6c6f0900"+"b3808eba31b243bb", hex.EncodeToString(appendDump(nil, []byte("hello"))))
	require.Equal(t, appendDump(nil, []byte("hello")), sealed("\x00\x05hello", rdbVersion))
}

func TestBrokenDumpsAreRefused(t *testing.T) {
	good := sealed("\x00\x05hello", rdbMaxVersion)
	_, err := parseDump(good, 5)
	require.NoError(t, err)
	_, err = parseDump(good, 4)
	require.Equal(t, errDumpLength, err)
	for i := range good {
		broken := bytes.Clone(good)
		broken[i] ^= 1
		_, err := parseDump(broken, 100)
		require.Equal(t, errDumpChecksum, err)
	}
	for name, c := range map[string]struct {
		dump []byte
		want error
	}{
		"nothing":                       {nil, errDumpChecksum},
		"a footer":                      {sealed("", 9), errDumpFormat},
		"a later version":               {sealed("\x00\x05hello", rdbMaxVersion+1), errDumpChecksum},
		"a list":                        {sealed("\x01\x05hello", 9), errDumpType},
		"no string":                     {sealed("\x00", 9), errDumpFormat},
		"a short string":                {sealed("\x00\x05hell", 9), errDumpFormat},
		"more than a string":            {sealed("\x00\x05hello!", 9), errDumpFormat},
		"a short length":                {sealed("\x00\x80\x00\x00\x00", 9), errDumpFormat},
		"a length that is no int":       {sealed("\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffx", 9), errDumpFormat},
		"another encoding":              {sealed("\x00\xc4xxxxx", 9), errDumpFormat},
		"half a number":                 {sealed("\x00\xc2xxx", 9), errDumpFormat},
		"a compressed one that is long": {sealed("\x00\xc3\x02\x80\xff\xff\xff\xff\x00x", 9), errDumpLength},
		"a compressed one that is less": {sealed("\x00\xc3\x02\x03\x00x", 9), errDumpFormat},
		"a distance before the value":   {sealed("\x00\xc3\x04\x05\x00x\x20\x01", 9), errDumpFormat},
		"a distance without its end":    {sealed("\x00\xc3\x04\x05\x00x\xe0\x01", 9), errDumpFormat},
	} {
		_, err := parseDump(c.dump, 1000)
		require.Equal(t, c.want, err, name)
	}
}

// A few bytes that announce a large value use little memory.
func TestACompressedValueIsNotBelievedToBeLarge(t *testing.T) {
	_, ok := unpackLZF([]byte("\x00x"), 1<<30)
	require.False(t, ok)
}

// Whatever RESTORE gets, it does not fail otherwise than by an error, and what it accepts is dumped so that it is
// accepted again.
func FuzzParseDump(f *testing.F) {
	for in := range redisDumps {
		raw, _ := hex.DecodeString(in)
		f.Add(raw[:len(raw)-rdbFooter])
	}
	f.Add([]byte("\x00\x80\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\xc3\x04\x05\x00x\x20\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const limit = 1 << 16
		_, _ = parseDump(body, limit)
		value, err := parseDump(sealed(string(body), rdbVersion), limit)
		if err != nil {
			require.Nil(t, value)
			return
		}
		require.LessOrEqual(t, len(value), limit)
		again, err := parseDump(appendDump(nil, value), limit)
		require.NoError(t, err)
		require.True(t, bytes.Equal(value, again))
	})
}
