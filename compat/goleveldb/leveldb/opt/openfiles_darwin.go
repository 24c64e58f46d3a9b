package opt

const defaultOpenFiles = 200
