package version_test

import (
	"os"
	"testing"

	"github.com/sievedb/sievedb/internal/test/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
