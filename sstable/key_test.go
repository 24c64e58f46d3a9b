package sstable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func FuzzParseKey(f *testing.F) {
	f.Add(Key{User: []byte("key"), Seq: 7}.Append(nil))
	f.Add(Key{Deletion: true, Seq: base.MaxSeq}.Append(nil))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, ikey []byte) {
		k, ok := ParseKey(ikey)
		require.Equal(t, base.ValidInternalKey(ikey), ok)
		if ok {
			require.Equal(t, ikey, k.Append(nil))
		}
	})
}
