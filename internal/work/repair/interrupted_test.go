package repair

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

func FuzzDecodeInterrupted(f *testing.F) {
	const name = "MANIFEST-000012"
	f.Add([]byte(`[{"Manifest":"MANIFEST-000012","EntriesLost":5,"BytesLost":100,"MayResurrect":true}]` + "\n"))
	f.Add([]byte(`[{"Manifest":"MANIFEST-000010"},{"Manifest":"MANIFEST-000012","EntriesLost":5}]`))
	f.Add([]byte(`[{"Manifest":"../MANIFEST-000012"}]`))
	f.Add([]byte(`[{"Manifest":"CURRENT","EntriesLost":-1}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, ok := decodeInterrupted(b, name)
		if !ok {
			return
		}
		again := result.Of(json.Marshal([]interrupted{i}))(t)
		same, ok := decodeInterrupted(again, name)
		require.True(t, ok)
		require.Equal(t, i, same)
	})
}
