-- Keys and indexes, made behind the rows; numbers of what is posted from now on follow those of the population.
ALTER TABLE sections ADD PRIMARY KEY (se_id);
ALTER TABLE members ADD PRIMARY KEY (me_id);
ALTER TABLE stories ADD PRIMARY KEY (st_id);
ALTER TABLE comments ADD PRIMARY KEY (co_id);
ALTER TABLE moderations ADD PRIMARY KEY (mo_me_id, mo_co_id);
CREATE UNIQUE INDEX members_name ON members (me_name);
CREATE INDEX stories_section ON stories (st_se_id, st_id);
CREATE INDEX comments_story ON comments (co_st_id, co_id);
CREATE INDEX comments_member ON comments (co_me_id, co_id);
CREATE SEQUENCE member_ids; SELECT setval('member_ids', (SELECT max(me_id) FROM members));
CREATE SEQUENCE story_ids; SELECT setval('story_ids', (SELECT max(st_id) FROM stories));
CREATE SEQUENCE comment_ids; SELECT setval('comment_ids', (SELECT max(co_id) FROM comments));
