/** Pictures of networks and of their training. */
export {};
