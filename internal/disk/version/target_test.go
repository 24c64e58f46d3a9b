package version

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/stretchr/testify/require"
)

func TestCoversAgreesWithKeyComparison(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	custom := &base.Comparer{Name: "test", Compare: base.Bytewise.Compare} // not Bytewise: no prefixes
	for round := range 100 {
		prefix := []string{"", "k", "a long shared prefix ", "\xff\xff"}[round%4]
		key := func() string {
			b := make([]byte, rnd.IntN(11))
			for i := range b {
				b[i] = "\x00\x01ab\xff"[rnd.IntN(5)]
			}
			return prefix + string(b)
		}
		var files []*FileMeta
		var keys []string
		for i := range 1 + rnd.IntN(8) {
			smallest, largest := key(), key()
			if smallest > largest {
				smallest, largest = largest, smallest
			}
			files = append(files, file(uint64(i+1), smallest, largest, 1))
			keys = append(keys, smallest, largest, smallest+"\x00", largest+"\x00", prefix[:len(prefix)/2], prefix+"\xff", "\xff\xff\xff")
		}
		for range 50 {
			keys = append(keys, key())
		}
		for _, cmp := range []*base.Comparer{base.Bytewise, custom} {
			v := &Version{Cmp: cmp}
			v.Levels[0] = newLevel(cmp, 0, append([]*FileMeta(nil), files...))
			v.prepareSearch()
			for _, k := range keys {
				target, ok := v.Target([]byte(k))
				for i, f := range v.Levels[0].Files {
					covers := f.OverlapsUser(cmp, []byte(k), []byte(k))
					require.Equal(t, covers, ok && v.Levels[0].Covers(i, target), "%q in %s", k, f)
					ends := bytes.Equal([]byte(k), base.UserKey(f.Largest))
					require.Equal(t, ends, ok && v.Levels[0].EndsWith(i, target), "%q in %s", k, f)
				}
			}
		}
	}
}

// Many tables may have the same eight bytes after the common prefix.
func TestSeekAmongManyEqualPrefixes(t *testing.T) {
	for _, head := range []string{"AAAAAAAA", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		var files []*FileMeta
		files = append(files, file(1, "", "0", 1))
		for i := range 100 {
			k := head + string([]byte{byte(i), 'x'})
			files = append(files, file(uint64(i+2), k, k, 1))
		}
		v := &Version{Cmp: base.Bytewise}
		v.Levels[1] = newLevel(v.Cmp, 1, files)
		v.prepareSearch()
		l := &v.Levels[1]
		for i := range l.Files {
			target, ok := v.Target(base.UserKey(l.Files[i].Largest))
			require.True(t, ok)
			require.Equal(t, i, l.Seek(target))
			target, _ = v.Target(append(bytes.Clone(base.UserKey(l.Files[i].Largest)), 0))
			require.Equal(t, i+1, l.Seek(target))
		}
	}
}
