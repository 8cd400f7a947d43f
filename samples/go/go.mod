module aotc

go 1.18
