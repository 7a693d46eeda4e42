module fourfold/conformance/support

go 1.24
