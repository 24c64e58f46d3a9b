package filter

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// goldenKeys makes the key lists of testdata/leveldb_bloom.cc.
func goldenKeys(t *testing.T, recipe string, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		switch recipe {
		case "words":
			keys[i] = []byte([]string{"hello", "world"}[i])
		case "le32":
			keys[i] = le32(i)
		case "dec16":
			keys[i] = fmt.Appendf(nil, "%016d", i)
		case "bytes":
			keys[i] = make([]byte, i%17)
			for j := range keys[i] {
				keys[i][j] = byte(131*i + 29*j)
			}
		default:
			require.Fail(t, "unknown recipe", recipe)
		}
	}
	return keys
}

func unhex(t *testing.T, s string) []byte {
	if s == "-" {
		return []byte{}
	}
	b := result.Of(hex.DecodeString(s))(t)
	return b
}

func TestFiltersAndAnswersMatchLevelDB(t *testing.T) {
	file := result.Of(os.Open("testdata/leveldb_bloom.txt"))(t)
	defer file.Close()

	filters, verdicts := 0, 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch fields[0] {
		case "#":
		case "filter":
			checkGoldenFilter(t, fields)
			filters++
		case "verdict":
			require.Len(t, fields, 4)
			got := mayMatch(t, BloomPolicy{}, unhex(t, fields[2]), unhex(t, fields[1]))
			require.Equal(t, fields[3] == "may", got, lines.Text())
			verdicts++
		default:
			require.Fail(t, "unknown line", lines.Text())
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, 101+8+6+1+3, filters, "the whole file is read")
	require.Equal(t, 2*30+200, verdicts, "the whole file is read")
}

// checkGoldenFilter checks a line "filter BITS RECIPE COUNT HEX".
func checkGoldenFilter(t *testing.T, fields []string) {
	require.Len(t, fields, 5)
	bits := result.Of(strconv.Atoi(fields[1]))(t)
	n := result.Of(strconv.Atoi(fields[3]))(t)
	want := unhex(t, fields[4])
	claim := strings.Join(fields[:4], " ")

	p := NewBloomPolicy(bits)
	keys := goldenKeys(t, fields[2], n)
	require.Equal(t, want, p.CreateFilter(nil, keys), claim)
	g := p.NewGenerator()
	addAll(g, keys)
	require.Equal(t, want, g.AppendFilter(nil), claim)
	for _, key := range keys {
		require.True(t, mayMatch(t, p, key, want), claim)
	}
}
