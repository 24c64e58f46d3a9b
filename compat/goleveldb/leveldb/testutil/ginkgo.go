package testutil

import (
	"github.com/onsi/ginkgo"
	"github.com/onsi/gomega"
)

// RunSuite runs the tests of a package, those of Defer included.
func RunSuite(t ginkgo.GinkgoTestingT, name string) {
	RunDefer()
	ginkgo.SynchronizedBeforeSuite(func() []byte {
		RunDefer("setup")
		return nil
	}, func([]byte) {})
	ginkgo.SynchronizedAfterSuite(func() { RunDefer("teardown") }, func() {})
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, name)
}
