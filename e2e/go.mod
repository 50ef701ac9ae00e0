module github.com/stratos-sh/stratos/e2e

go 1.26.0
