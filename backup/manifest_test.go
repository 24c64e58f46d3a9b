package backup_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/result"
)

// example is the manifest in docs/backup.md.
func example(t testing.TB) string {
	t.Helper()
	text := result.Of(os.ReadFile("testdata/backup.txt"))(t)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// sha returns the checksum of an object.
func sha(b []byte) [32]byte { return sha256.Sum256(b) }

// withSum returns the lines with a correct checksum.
func withSum(body string) string { return fmt.Sprintf("%ssum %x\n", body, sha256.Sum256([]byte(body))) }

func TestTheExampleDecodesAndEncodesBack(t *testing.T) {
	text := example(t)
	again := result.Of(backup.EncodeAgain([]byte(text)))(t)
	require.Equal(t, text, string(again))

	page := result.Of(os.ReadFile("../docs/backup.md"))(t)
	cut := regexp.MustCompile(`([0-9a-f]{8})[0-9a-f]{56}`).ReplaceAllString(text, "$1…")
	require.Contains(t, strings.ReplaceAll(string(page), "\r\n", "\n"), "```text\n"+cut+"```", "docs/backup.md")
}

// A manifest that was changed is refused, even if its checksum is right.
func TestMalformedBackupsAreRefused(t *testing.T) {
	text := example(t)
	body := text[:strings.LastIndex(text, "sum ")]
	for old, changed := range map[string]string{
		"sievedb backup 1":    "sievedb backup 2",
		"id 2026":             "id 2o26",
		"database \"orders\"": "database orders",
		"engine \"v0.1.0\"":   "engine 'v'",
		"sequence 1234":       "sequence 01234",
		"stored 2098200":      "stored 9223372036854775807",
		"file 000005.ldb":     "file ../000005.ldb",
		"file CURRENT 16":     "file LOCK 16",
		"file CURRENT":        "file 000005.ldb",
		" 2097152 ":           " -1 ",
		" -\n":                "\n",
		" 3e23e8":             " 3E23e8",
		"stored":              "later",
	} {
		require.Contains(t, body, old)
		_, err := backup.EncodeAgain([]byte(withSum(strings.Replace(body, old, changed, 1))))
		require.Error(t, err, changed)
		require.NotContains(t, err.Error(), "last line", changed)
	}
	for i := range len(text) {
		require.Error(t, result.Err(backup.EncodeAgain([]byte(text[:i]))))
	}
	require.Error(t, result.Err(backup.EncodeAgain([]byte(text+"\n"))))
}

func FuzzManifest(f *testing.F) {
	text := example(f)
	f.Add(text[:strings.LastIndex(text, "sum ")])
	f.Add("sievedb backup 1\n")
	f.Fuzz(func(t *testing.T, body string) {
		sealed := withSum(body)
		again, err := backup.EncodeAgain([]byte(sealed))
		if err == nil {
			require.Equal(t, sealed, string(again))
		}
		_, _ = backup.EncodeAgain([]byte(body))
	})
}

// Another storage, and one of a later version, is left alone.
func TestOtherStoragesAreRefused(t *testing.T) {
	storage, repo, d := newRepo(t)
	require.ErrorContains(t, result.Err(repo.List(background)), "the first backup makes one")
	storage.Replace("photos/1.jpg", []byte("x"))
	require.ErrorContains(t, result.Err(repo.Create(background, d, nil)), `"photos/1.jpg" and no FORMAT`)
	storage.Replace("photos/1.jpg", nil)
	storage.Replace("FORMAT", []byte("sievedb backup repository 2\n"))
	for _, err := range []error{
		second(repo.Create(background, d, nil)), second(repo.List(background)), second(repo.Verify(background)),
		second(repo.Restore(background, "", "to", nil)), second(repo.Prune(background, backup.Policy{KeepLast: 1})),
	} {
		require.ErrorIs(t, err, db.ErrNewer)
		require.ErrorContains(t, err, "FORMAT says")
	}
	require.Len(t, storage.Objects(), 1)
}

func TestMisuseIsRefused(t *testing.T) {
	_, repo, d := newRepo(t)
	info := create(t, repo, d, nil)
	var none context.Context
	for want, err := range map[string]error{
		"Create needs a context":                  second(repo.Create(none, d, nil)),
		"Create: sievedb: ":                       second(repo.Create(background, nil, nil)),
		"Restore needs a context and a directory": second(repo.Restore(background, info.ID, "", nil)),
		"not the ID of a backup":                  second(repo.Restore(background, "../../etc", "to", nil)),
		"Verify needs a context":                  second(repo.Verify(none)),
		"Prune needs a context":                   second(repo.Prune(none, backup.Policy{KeepLast: 1})),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, d.Close())
	require.ErrorContains(t, result.Err(repo.Create(background, d, nil)), "closed")
}
